import { afterEach, describe, expect, it } from 'vitest';
import type { ChatRequest } from '../../../packages/core/src/engine/engine.ts';
import { answerJson } from '../../fixtures/fake-upstream.ts';
import { collect, hello, type RemoteBench, remoteBench, textOf } from '../../fixtures/remote-bench.ts';

let bench: RemoteBench;
afterEach(() => bench.close());

const LONG = 'many words '.repeat(500);
const chat: ChatRequest = { prompt: { messages: [{ role: 'user', content: LONG }] } };
/** As Ollama 0.17 answers. */
const tooLong = answerJson(400, { error: 'the input length exceeds the context length' });
const read = answerJson(200, { done: true, prompt_eval_count: 1000, eval_count: 1 });
const start = async () => {
  bench = await remoteBench({ upstreams: [{ kind: 'ollama' }] });
};
const paths = () => bench.upstreams[0]?.requests.map(({ path }) => path);

describe('a prompt that Ollama would cut', () => {
  it.each([
    ['messages', '/api/chat', chat],
    ['prompt', '/api/generate', { prompt: { text: LONG }, maxTokens: 5 }],
  ] as const)('is refused, with %s as the field', async (field, path, request) => {
    await start();
    bench.upstreams[0]?.script.push(tooLong);
    const refusal = { code: 'context_length_exceeded', field: [field] };
    await expect(collect(bench.chat(request))).rejects.toMatchObject(refusal);
    expect(paths()).toEqual([path]);
    expect(bench.upstreams[0]?.requests[0]?.body).toMatchObject({
      truncate: false,
      stream: false,
      options: { num_predict: 1 },
    });
  });

  it('is not confused with a long one that fits', async () => {
    await start();
    bench.upstreams[0]?.script.push(read);
    expect(textOf(await collect(bench.chat(chat)))).toBe('Hello from the other side.');
    expect(paths()).toEqual(['/api/chat', '/v1/chat/completions']);
  });

  it('is counted with its tool calls, and with images whatever their size', async () => {
    await start();
    bench.upstreams[0]?.script.push(read);
    const image = { at: 0, url: 'data:image/png;base64,AAAA', tokens: 1 };
    const call = { id: 'c1', name: 'look', arguments: '{"at":"sky"}' };
    await collect(
      bench.chat({
        prompt: {
          messages: [
            { role: 'user', content: 'See', images: [image] },
            { role: 'assistant', content: '', toolCalls: [call] },
            { role: 'tool', content: 'blue', toolCallId: 'c1' },
          ],
        },
      }),
    );
    expect(bench.upstreams[0]?.requests[0]?.body).toMatchObject({
      messages: [
        { role: 'user', content: 'See', images: ['AAAA'] },
        { role: 'assistant', tool_calls: [{ id: 'c1', function: { name: 'look', arguments: { at: 'sky' } } }] },
        { role: 'tool', content: 'blue', tool_call_id: 'c1' },
      ],
    });
  });

  it('needs no second look where it is short', async () => {
    await start();
    await collect(bench.chat(hello));
    expect(paths()).toEqual(['/v1/chat/completions']);
  });
});
