import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { afterAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { silence } from '../fixtures/fake-upstream.ts';
import { answering } from '../fixtures/scripted-model.ts';
import { CHAT, KEY, startHttpBed } from './http/bed.ts';

const bed = await startHttpBed();
const openai = new OpenAI({ baseURL: `${bed.address}/v1`, apiKey: KEY, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: bed.address, apiKey: KEY, maxRetries: 0 });
afterAll(() => bed[Symbol.asyncDispose]());

type Calls = Record<string, () => Promise<unknown>>;

/** Names of what a resource can do, and of the resources in it, as the package itself has them. */
const methodsOf = (resource: object): string[] =>
  Object.getOwnPropertyNames(Object.getPrototypeOf(resource)).filter((name) => name !== 'constructor');
const resourcesOf = (resource: object): string[] => Object.keys(resource).filter((name) => name !== '_client');

const ask = { model: CHAT, input: 'Hi' };
const newResponse = async () => (await openai.responses.create(ask)).id;
const newConversation = async () => (await openai.conversations.create({})).id;
async function newItem() {
  const conversation = await newConversation();
  const added = await openai.conversations.items.create(conversation, { items: [{ role: 'user', content: 'Hi' }] });
  return { id: added.data[0]?.id ?? '', in: { conversation_id: conversation } };
}
const answerNext = (text: string) => bed.chat.script.push(answering({ text }));
const countNext = () =>
  bed.chat.script.push((_request, reply) => {
    reply.writeHead(200, { 'content-type': 'application/json' }).end('{"count":7}');
  });
const message = { model: CHAT, max_tokens: 20, messages: [{ role: 'user' as const, content: 'Hi' }] };
const City = z.object({ city: z.string() });
async function newMessageBatch() {
  const created = await anthropic.messages.batches.create({ requests: [{ custom_id: 'a', params: message }] });
  expect(created).toMatchObject({ type: 'message_batch', request_counts: { processing: 1 } });
  return created.id;
}
async function endedMessageBatch() {
  const id = await newMessageBatch();
  const status = async () => (await anthropic.messages.batches.retrieve(id)).processing_status;
  await expect.poll(status).toBe('ended');
  return id;
}

/** Fails with the name of a method that the package has and this test does not. */
const check = (name: string, resource: () => object, calls: Calls, inner: string[] = []) => {
  it(`${name}: is known to this test`, () => {
    expect(methodsOf(resource()).sort(), `a new method of ${name}: support it and test it`).toEqual(
      Object.keys(calls).sort(),
    );
    expect(resourcesOf(resource()).sort(), `a new resource in ${name}: support it and test it`).toEqual(inner);
  });
  it.each(Object.keys(calls))(`${name}.%s`, async (method) => {
    await calls[method]?.();
  });
};

describe('openai: every method of', () => {
  check(
    'responses',
    () => openai.responses,
    {
      create: async () => expect((await openai.responses.create(ask)).status).toBe('completed'),
      retrieve: async () => {
        const id = await newResponse();
        expect((await openai.responses.retrieve(id)).id).toBe(id);
        const types = [];
        for await (const event of await openai.responses.retrieve(id, { stream: true })) types.push(event.type);
        expect(types.at(-1)).toBe('response.completed');
      },
      delete: async () => {
        const id = await newResponse();
        await openai.responses.delete(id);
        await expect(openai.responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
      },
      cancel: async () => {
        bed.chat.script.push(silence);
        const before = bed.chat.requests.length;
        const { id } = await openai.responses.create({ ...ask, background: true });
        await bed.chat.until(() => bed.chat.requests.length > before);
        expect((await openai.responses.cancel(id)).status).toBe('cancelled');
      },
      compact: async () => {
        answerNext('They said hi.');
        expect((await openai.responses.compact({ ...ask })).output.at(-1)?.type).toBe('compaction');
      },
      parse: async () => {
        answerNext('{"city":"Nairobi"}');
        const text = { format: zodTextFormat(City, 'city') };
        expect((await openai.responses.parse({ ...ask, text })).output_parsed).toEqual({ city: 'Nairobi' });
      },
      stream: async () => {
        answerNext('Hello there');
        const stream = openai.responses.stream(ask);
        const { id, output_text: text } = await stream.finalResponse();
        expect(text).toBe('Hello there');
        const resumed = openai.responses.stream({ response_id: id, starting_after: 3 });
        expect((await resumed.finalResponse()).id).toBe(id);
      },
    },
    ['inputItems', 'inputTokens'],
  );
  check('responses.inputItems', () => openai.responses.inputItems, {
    list: async () => expect((await openai.responses.inputItems.list(await newResponse())).data).toHaveLength(1),
  });
  check('responses.inputTokens', () => openai.responses.inputTokens, {
    count: async () => {
      countNext();
      expect((await openai.responses.inputTokens.count(ask)).input_tokens).toBe(7);
    },
  });
  check(
    'conversations',
    () => openai.conversations,
    {
      create: newConversation,
      retrieve: async () => void (await openai.conversations.retrieve(await newConversation())),
      update: async () => {
        const changed = await openai.conversations.update(await newConversation(), { metadata: { a: 'b' } });
        expect(changed.metadata).toEqual({ a: 'b' });
      },
      delete: async () => expect((await openai.conversations.delete(await newConversation())).deleted).toBe(true),
    },
    ['items'],
  );
  check('conversations.items', () => openai.conversations.items, {
    create: newItem,
    retrieve: async () => {
      const item = await newItem();
      expect((await openai.conversations.items.retrieve(item.id, item.in)).id).toBe(item.id);
    },
    list: async () => {
      const item = await newItem();
      expect((await openai.conversations.items.list(item.in.conversation_id)).data).toHaveLength(1);
    },
    delete: async () => {
      const item = await newItem();
      expect((await openai.conversations.items.delete(item.id, item.in)).id).toBe(item.in.conversation_id);
    },
  });
});

describe('@anthropic-ai/sdk: every method of', () => {
  check(
    'messages',
    () => anthropic.messages,
    {
      create: async () => expect((await anthropic.messages.create(message)).role).toBe('assistant'),
      parse: async () => {
        answerNext('{"city":"Nairobi"}');
        const schema = { type: 'object' as const, properties: { city: { type: 'string' } }, required: ['city'] };
        const format = { type: 'json_schema' as const, schema, parse: (text: string) => City.parse(JSON.parse(text)) };
        const parsed = await anthropic.messages.parse({ ...message, output_config: { format } });
        expect(parsed.parsed_output).toEqual({ city: 'Nairobi' });
      },
      stream: async () => {
        answerNext('Hello there');
        expect(await anthropic.messages.stream(message).finalText()).toBe('Hello there');
      },
      countTokens: async () => {
        countNext();
        const { max_tokens: _max, ...counted } = message;
        expect((await anthropic.messages.countTokens(counted)).input_tokens).toBe(7);
      },
    },
    ['batches'],
  );
  check('messages.batches', () => anthropic.messages.batches, {
    create: newMessageBatch,
    retrieve: async () => {
      const id = await newMessageBatch();
      expect((await anthropic.messages.batches.retrieve(id)).id).toBe(id);
    },
    list: async () => {
      const id = await newMessageBatch();
      expect((await anthropic.messages.batches.list()).data.map((each) => each.id)).toContain(id);
    },
    delete: async () => {
      const id = await endedMessageBatch();
      expect((await anthropic.messages.batches.delete(id)).type).toBe('message_batch_deleted');
    },
    cancel: async () => {
      const gate = Promise.withResolvers<void>();
      bed.chat.script.push(async (request, response) => {
        await gate.promise;
        return answering({ text: 'Hello' })(request, response);
      });
      const before = bed.chat.requests.length;
      const id = await newMessageBatch();
      await bed.chat.until(() => bed.chat.requests.length > before);
      expect((await anthropic.messages.batches.cancel(id)).processing_status).toBe('canceling');
      gate.resolve();
    },
    results: async () => {
      const results = [];
      for await (const each of await anthropic.messages.batches.results(await endedMessageBatch())) results.push(each);
      expect(results).toMatchObject([{ custom_id: 'a', result: { type: 'succeeded' } }]);
    },
  });
});
