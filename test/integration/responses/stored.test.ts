import OpenAI from 'openai';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { checkOfficial } from '../../fixtures/openai-schemas/official.ts';
import { checkResponseStream, recordingFetch, responseEvents } from '../../fixtures/openai-schemas/recording-fetch.ts';
import { answering } from '../../fixtures/scripted-model.ts';
import { CHAT, KEY, startHttpBed } from '../http/bed.ts';

const recorded = recordingFetch();

async function account(name: string, settings: object = {}): Promise<OpenAI> {
  await bed.post('/v1/admin/accounts', { name, ...settings });
  const { secret } = (await (await bed.post('/v1/admin/keys', { account: name, name })).json()) as { secret: string };
  return new OpenAI({ baseURL: `${bed.address}/v1`, apiKey: secret, maxRetries: 0 });
}

const bed = await startHttpBed({ responses: { quota_responses: 20 } });
const openai = new OpenAI({ baseURL: `${bed.address}/v1`, apiKey: KEY, fetch: recorded.fetch, maxRetries: 0 });
const other = await account('other');
const silent = await account('silent', { zero_retention: true });
afterAll(() => bed[Symbol.asyncDispose]());
afterEach(() => {
  bed.chat.script.length = 0;
  bed.chat.requests.length = 0;
  recorded.check();
});

const TOOL = {
  type: 'function' as const,
  name: 'get_weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
  strict: false,
};
const sent = (index = 0) => (bed.chat.requests[index]?.body as { messages: object[] } | undefined)?.messages;
const status = async (work: Promise<unknown>) =>
  work.then(
    () => 200,
    (error) => error.status,
  );

describe('what a response continues', () => {
  it('is refused when it is larger than any model could read, and listed in pages', async () => {
    await using small = await startHttpBed({ http: { body_limit_bytes: 65_536 } });
    const client = new OpenAI({ baseURL: `${small.address}/v1`, apiKey: KEY, maxRetries: 0 });
    const large = { role: 'user' as const, content: 'x'.repeat(60_000) };
    const create = (body: object) => client.responses.create({ model: CHAT, input: 'Hi', ...body, stream: false });
    const refused = (param: string) => ({ status: 422, code: 'context_length_exceeded', param });

    const { id: conversation } = await client.conversations.create({ items: [large] });
    await client.conversations.items.create(conversation, { items: [large] });
    await create({ conversation });
    await client.conversations.items.create(conversation, { items: [large] });
    await expect(create({ conversation })).rejects.toMatchObject(refused('conversation'));
    await expect(create({ conversation, background: true })).rejects.toMatchObject(refused('conversation'));

    const turns = [await create({ input: [large] })];
    for (let i = 0; i < 2; i += 1) {
      turns.push(await create({ input: [large], previous_response_id: turns.at(-1)?.id }));
    }
    const continued = { previous_response_id: turns.at(-1)?.id };
    await expect(create(continued)).rejects.toMatchObject(refused('previous_response_id'));
    const items = await Promise.all(turns.map(({ id }) => client.responses.inputItems.list(id)));
    const references = items.map(({ data }) => ({ type: 'item_reference' as const, id: data[0]?.id ?? '' }));
    await create({ input: references.slice(0, 2) });
    await expect(create({ input: references })).rejects.toMatchObject(refused('input'));

    await client.responses.delete(turns[0]?.id ?? '');
    await expect(create(continued)).rejects.toMatchObject({
      status: 400,
      code: 'previous_response_not_found',
      param: 'previous_response_id',
    });
  });
});

describe('a stored response', () => {
  it('is retrieved, listed and deleted, by its own account only', async () => {
    const created = await openai.responses.create({ model: CHAT, input: 'Hi' });
    expect(created).toMatchObject({ store: true });
    expect(await openai.responses.retrieve(created.id)).toEqual(created);
    const items = await openai.responses.inputItems.list(created.id);
    checkOfficial('ResponseItemList', { object: 'list', ...items, first_id: 'x', last_id: 'x', data: items.data });
    expect(items.data).toMatchObject([
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
    ]);
    const named = { id: 'x'.repeat(513), role: 'user' as const, content: 'Hi' };
    expect(await status(openai.conversations.create({ items: [named] }))).toBe(400);
    expect(await status(other.responses.retrieve(created.id))).toBe(404);
    expect(await status(other.responses.inputItems.list(created.id))).toBe(404);
    expect(await status(other.responses.delete(created.id))).toBe(404);
    expect(await status(other.responses.create({ model: CHAT, input: 'x', previous_response_id: created.id }))).toBe(
      400,
    );
    expect(
      await status(
        other.responses.create({ model: CHAT, input: [{ type: 'item_reference', id: created.output[0]?.id ?? '' }] }),
      ),
    ).toBe(404);
    await openai.responses.delete(created.id);
    expect(await status(openai.responses.retrieve(created.id))).toBe(404);
  });

  it('is continued with its calls, not with its instructions', async () => {
    bed.chat.script.push(
      answering({ reasoning: 'Look.', calls: [{ id: 'call_1', name: 'get_weather', arguments: { city: 'Nairobi' } }] }),
      answering({ text: 'Sunny.' }),
      answering({ text: 'Bye.' }),
    );
    const first = await openai.responses.create({
      model: CHAT,
      instructions: 'One.',
      input: 'Weather?',
      tools: [TOOL],
    });
    const second = await openai.responses.create({
      model: CHAT,
      instructions: 'Two.',
      tools: [TOOL],
      previous_response_id: first.id,
      input: [{ type: 'function_call_output', call_id: 'call_1', output: 'sun' }],
    });
    expect(second.previous_response_id).toBe(first.id);
    await openai.responses.create({ model: CHAT, previous_response_id: second.id, input: 'Thanks' });
    expect(sent(2)).toEqual([
      { role: 'user', content: 'Weather?' },
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'Look.',
        tool_calls: [
          { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Nairobi"}' } },
        ],
      },
      { role: 'tool', content: 'sun', tool_call_id: 'call_1' },
      { role: 'assistant', content: 'Sunny.' },
      { role: 'user', content: 'Thanks' },
    ]);
    expect(sent(1)?.[0]).toEqual({ role: 'system', content: 'Two.' });
    await openai.responses.delete(first.id);
    expect(await status(openai.responses.create({ model: CHAT, previous_response_id: second.id, input: 'x' }))).toBe(
      400,
    );
  });

  it('is referred to by its items', async () => {
    bed.chat.script.push(answering({ text: 'Hello' }), answering({ text: 'Again' }));
    const first = await openai.responses.create({ model: CHAT, input: 'Hi' });
    await openai.responses.create({
      model: CHAT,
      input: [
        { role: 'user', content: 'Hi' },
        { type: 'item_reference', id: first.output[0]?.id ?? '' },
        { role: 'user', content: 'More' },
      ],
    });
    expect(sent(1)).toEqual([
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello' },
      { role: 'user', content: 'More' },
    ]);
    expect(
      await status(openai.responses.create({ model: CHAT, input: [{ type: 'item_reference', id: 'msg_no_1' }] })),
    ).toBe(404);
  });

  it('is not kept when the client or the account says so', async () => {
    const created = await openai.responses.create({ model: CHAT, input: 'Hi', store: false });
    expect(created).toMatchObject({ store: false });
    expect(await status(openai.responses.retrieve(created.id))).toBe(404);
    const kept = await silent.responses.create({ model: CHAT, input: 'Hi', store: true });
    expect(kept).toMatchObject({ store: false });
    expect(await status(silent.responses.retrieve(kept.id))).toBe(404);
    expect(await status(silent.responses.create({ model: CHAT, input: 'Hi', background: true }))).toBe(422);
    expect(await status(silent.conversations.create({}))).toBe(422);
  });

  it('is refused over the quota if asked for, and otherwise not kept', async () => {
    const full = await account('full');
    for (let i = 0; i < 20; i += 1) await full.responses.create({ model: CHAT, input: 'Hi' });
    expect(await full.responses.create({ model: CHAT, input: 'Hi' })).toMatchObject({ store: false });
    expect(await status(full.responses.create({ model: CHAT, input: 'Hi', store: true }))).toBe(422);
  });

  it('is streamed again', async () => {
    bed.chat.script.push(
      answering({ reasoning: 'Hm.', text: 'Hello there', calls: [{ name: 'get_weather', arguments: {} }] }),
    );
    const created = await openai.responses.create({ model: CHAT, input: 'Hi', tools: [TOOL] });
    const text = await (await bed.fetch(`/v1/responses/${created.id}?stream=true`)).text();
    checkResponseStream(text);
    const events = responseEvents(text);
    expect(events.at(-1)).toMatchObject({ type: 'response.completed', response: { output: created.output } });
    const rest = responseEvents(
      await (await bed.fetch(`/v1/responses/${created.id}?stream=true&starting_after=3`)).text(),
    );
    expect(rest).toEqual(events.slice(4));
  });
});

describe('a conversation', () => {
  it('collects what responses add to it', async () => {
    bed.chat.script.push(answering({ text: 'Hello' }), answering({ text: 'Four.' }));
    const conversation = await openai.conversations.create({
      metadata: { topic: 'sums' },
      items: [{ type: 'message', role: 'system', content: 'Be brief.' }],
    });
    checkOfficial('ConversationResource', conversation);
    const first = await openai.responses.create({ model: CHAT, conversation: conversation.id, input: 'Hi' });
    expect(first.conversation).toEqual({ id: conversation.id });
    await openai.responses.create({ model: CHAT, conversation: { id: conversation.id }, input: '2+2?', store: false });
    expect(sent(1)).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello' },
      { role: 'user', content: '2+2?' },
    ]);
    const items = [];
    for await (const item of openai.conversations.items.list(conversation.id, { order: 'asc', limit: 2 }))
      items.push(item);
    expect(items.map((item) => 'role' in item && item.role)).toEqual([
      'system',
      'user',
      'assistant',
      'user',
      'assistant',
    ]);
    for (const item of items) checkOfficial('ConversationItem', item);
    expect(await status(other.conversations.retrieve(conversation.id))).toBe(404);
    expect(await status(other.responses.create({ model: CHAT, conversation: conversation.id, input: 'x' }))).toBe(404);
    expect(
      await status(
        openai.responses.create({
          model: CHAT,
          conversation: conversation.id,
          previous_response_id: first.id,
          input: 'x',
        }),
      ),
    ).toBe(400);
  });

  it('is changed and deleted with its items', async () => {
    const { id } = await openai.conversations.create({});
    await openai.conversations.update(id, { metadata: { a: 'b' } });
    expect(await openai.conversations.retrieve(id)).toMatchObject({ id, metadata: { a: 'b' } });
    const added = await openai.conversations.items.create(id, { items: [{ role: 'user', content: 'Hi' }] });
    checkOfficial('ConversationItemList', { ...added, object: 'list' });
    const item = added.data[0]?.id ?? '';
    expect(await openai.conversations.items.retrieve(item, { conversation_id: id })).toMatchObject({ id: item });
    expect(await openai.conversations.items.delete(item, { conversation_id: id })).toMatchObject({ id });
    expect(await status(openai.conversations.items.retrieve(item, { conversation_id: id }))).toBe(404);
    checkOfficial('DeletedConversationResource', await openai.conversations.delete(id));
    expect(await status(openai.conversations.retrieve(id))).toBe(404);
  });
});

describe('counting the input of a response', () => {
  it('asks the engine for the tokens of the whole chat', async () => {
    bed.chat.script.push((_request, reply) => {
      reply.writeHead(200, { 'content-type': 'application/json' }).end('{"count":42}');
    });
    const counted = await openai.responses.inputTokens.count({ model: CHAT, input: 'Hi', instructions: 'Be brief.' });
    checkOfficial('TokenCountsResource', counted);
    expect(counted.input_tokens).toBe(42);
    expect(bed.chat.requests[0]).toMatchObject({
      path: '/tokenize',
      body: {
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'Hi' },
        ],
      },
    });
  });
});
