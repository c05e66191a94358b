import { expect, it } from 'vitest';
import { type AnswerPiece, ChatChunks } from './answer.ts';
import { PlainChunks } from './plain-chunks.ts';

const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_760_000_000, model: 'm' };
const choice = (content: string, more: object = {}) => [{ index: 0, delta: { content }, finish_reason: null, ...more }];

function reader() {
  const chunks = new ChatChunks({ promptTokens: 1, mostCompletionTokens: 100 });
  chunks.plain = new PlainChunks();
  return (chunk: object): readonly AnswerPiece[] => {
    const out: AnswerPiece[] = [];
    chunks.read(JSON.stringify(chunk), out);
    return out;
  };
}

it.each<[string, (text: string, tokens: number) => object]>([
  ['OpenAI', (text, n) => ({ ...head, choices: choice(text), usage: null, obfuscation: 'abcdefgh'.slice(n) })],
  ['Ollama', (text, n) => ({ ...head, created: head.created + n, choices: choice(text) })],
  [
    'vLLM',
    (text, n) => ({
      ...head,
      choices: choice(text, { logprobs: null, token_ids: null }),
      usage: { prompt_tokens: 7, total_tokens: 7 + n, completion_tokens: n },
    }),
  ],
  [
    'llama-server',
    (text, n) => ({
      choices: choice(text),
      ...head,
      timings: { cache_n: 0, prompt_n: 7, prompt_ms: 20.5, predicted_n: n, predicted_ms: 1.5 * n },
    }),
  ],
])('parses only the first chunks of %s', (_name, chunk) => {
  const read = reader();
  read(chunk(' a', 1));
  read(chunk(' b', 2));
  expect(read(chunk(' "c"\n', 3))).toEqual(['" \\"c\\"\\n"']);
  expect(read(chunk('🌳', 4))).toEqual(['"🌳"']);
});

it('parses what is not the text of the answer', () => {
  const read = reader();
  const chunk = (text: string, content: string) => ({ note: { content }, choices: choice(text) });
  for (const text of ['a', 'b']) read(chunk(text, text));
  expect(read(chunk('c', 'd'))).toEqual([{ type: 'text-delta', text: 'c' }]);
  expect(read({ choices: choice('e', { finish_reason: 'stop' }) })).toEqual([{ type: 'text-delta', text: 'e' }]);
});
