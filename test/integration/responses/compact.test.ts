import OpenAI from 'openai';
import { afterAll, expect, it } from 'vitest';
import { checkOfficial } from '../../fixtures/openai-schemas/official.ts';
import { answering } from '../../fixtures/scripted-model.ts';
import { CHAT, KEY, startHttpBed } from '../http/bed.ts';

const bed = await startHttpBed();
const openai = new OpenAI({ baseURL: `${bed.address}/v1`, apiKey: KEY, maxRetries: 0 });
afterAll(() => bed[Symbol.asyncDispose]());

type Sent = { messages: { role: string; content: string }[] } | undefined;
const sent = () => (bed.chat.requests.at(-1)?.body as Sent)?.messages ?? [];

it('replaces a conversation by what the user said and a summary, which later requests read', async () => {
  bed.chat.script.push(
    answering({ text: 'Nice to meet you.' }),
    answering({ reasoning: 'Hm.', text: 'The user is Alice.', promptTokens: 40, cachedTokens: 8 }),
    answering({ text: 'Alice.' }),
  );
  const first = await openai.responses.create({ model: CHAT, input: 'My name is Alice.' });
  const compacted = await openai.responses.compact({
    model: CHAT,
    previous_response_id: first.id,
    instructions: 'Be brief.',
    input: [{ role: 'user', content: 'I like tea.' }],
  });
  checkOfficial('CompactResource', compacted);
  expect(compacted.output.map((item) => [item.type, 'content' in item ? item.content : undefined])).toEqual([
    ['message', [{ type: 'input_text', text: 'My name is Alice.' }]],
    ['message', [{ type: 'input_text', text: 'I like tea.' }]],
    ['compaction', undefined],
  ]);
  expect(compacted.usage).toMatchObject({ input_tokens: 40, input_tokens_details: { cached_tokens: 8 } });
  expect(sent().map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'user', 'user']);
  expect(sent().at(-1)?.content).toContain('Summarize this conversation');

  const input = [...compacted.output, { role: 'user', content: 'Who am I?' }] as OpenAI.Responses.ResponseInput;
  const next = await openai.responses.create({ model: CHAT, input });
  expect(next.output_text).toBe('Alice.');
  expect(sent().map(({ content }) => content)).toEqual([
    'My name is Alice.',
    'I like tea.',
    '<conversation-summary>\nThe user is Alice.\n</conversation-summary>',
    'Who am I?',
  ]);
  // A summary of another server cannot be read, and is left out.
  await openai.responses.create({ model: CHAT, input: [{ type: 'compaction', encrypted_content: 'x' }] });
  expect(sent()).toEqual([{ role: 'user', content: '' }]);
});

it('answers with the errors of other requests', async () => {
  const unknown = openai.responses.compact({ model: CHAT, previous_response_id: 'resp_none', input: 'x' });
  await expect(unknown).rejects.toMatchObject({
    status: 400,
    code: 'previous_response_not_found',
    param: 'previous_response_id',
  });
  await expect(openai.responses.compact({ model: 'no/model', input: 'x' })).rejects.toMatchObject({ status: 404 });
});
