import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isInference, OPERATIONS, type Operation } from '../../../packages/core/src/domain/operations.ts';
import { startClientThread } from '../../fixtures/client-thread.ts';
import { type FakeUpstream, startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import { textPdf } from '../../fixtures/pdf.ts';
import { slowness } from '../../fixtures/slowness.ts';
import { CHAT, EMBEDDING, type HttpBed, startHttpBed } from './bed.ts';

const VISION = 'google/gemma-3-4b-it';
const RERANK = 'baai/bge-reranker-v2-m3';
const AUDIO = 'openai/whisper-tiny';
/** Of the thread that serves, to refuse a request with a body of 1 MB. Other threads collect and compile, or are clients. */
const MOST_CPU_MS = 15;
/** The first ones warm up, and the machine may do other things. */
const RUNS = 60;

let upstream: FakeUpstream;
let encoder: FakeUpstream;
let bed: HttpBed;
let key: { id: string; secret: string };
let file: string;
let response: string;
let item: string;

beforeAll(async () => {
  upstream = await startFakeUpstream('vllm');
  encoder = await startFakeUpstream('tei', { dimensions: 1024, contextLength: 8192 });
  bed = await startHttpBed({
    upstreams: [
      ...[CHAT, VISION].map((model) => ({ model, url: upstream.url, kind: 'vllm' })),
      ...[EMBEDDING, RERANK].map((model) => ({ model, url: encoder.url, kind: 'tei' })),
      { model: AUDIO, url: upstream.url, kind: 'openai' },
    ],
  });
  const made = await bed.post('/v1/admin/keys', { account: 'default', name: 'poor', monthly_budget_usd: 1 });
  key = (await made.json()) as typeof key;
  const form = new FormData();
  form.set('purpose', 'user_data');
  form.set('file', new Blob([Uint8Array.from(textPdf('Once there was a baobab.'))]), 'tale.pdf');
  const uploaded = await bed.fetch('/v1/files', { method: 'POST', body: form });
  file = ((await uploaded.json()) as { id: string }).id;
  // A long history, paid while the budget lasted.
  const first = await bed.post('/v1/responses', { model: CHAT, input: 'word '.repeat(20_000) }, key.secret);
  const stored = (await first.json()) as { id: string; output: { id: string }[] };
  response = stored.id;
  item = stored.output[0]?.id ?? '';
  expect((await ask(key.secret)).status).toBe(200);
  const poorer = await bed.post(`/v1/admin/keys/${key.id}`, { monthly_budget_usd: 1e-9 });
  expect(poorer.status).toBe(200);
});
afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await upstream.close();
  await encoder.close();
});

const keyed = { model: CHAT, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 5 };

const ask = (secret: string) =>
  bed.fetch('/v1/chat/completions', {
    method: 'POST',
    key: secret,
    headers: { 'content-type': 'application/json', 'idempotency-key': 'paid-before' },
    body: JSON.stringify(keyed),
  });

const KILOBYTES = 900;
const text = (bytes: number) => 'word '.repeat(bytes / 5);
const history = (role = 'user') =>
  Array.from({ length: 900 }, (_, index) => ({ role: index % 2 === 0 ? role : 'assistant', content: text(1_000) }));
const base64 = (bytes: number) => randomBytes((bytes * 3) / 4).toString('base64');
const pdf = () => `data:application/pdf;base64,${base64(KILOBYTES * 1_000)}`;
const image = () => `data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ${base64(KILOBYTES * 1_000)}`;

/** Bodies of up to 1 MB for every operation that is billed. */
const BODIES: Partial<Record<Operation, Record<string, { path: string; body: () => object | FormData }>>> = {
  'chat.completions.create': {
    'a long history': chatBody(() => ({ model: CHAT, messages: history() })),
    'an inline PDF': chatBody(() => ({ model: CHAT, messages: parts({ type: 'file', file: { file_data: pdf() } }) })),
    'an uploaded PDF': chatBody(() => ({ model: CHAT, messages: parts({ type: 'file', file: { file_id: file } }) })),
    'an image': chatBody(() => ({
      model: VISION,
      messages: parts({ type: 'image_url', image_url: { url: image() } }),
    })),
    'an open answer': chatBody(() => ({ model: CHAT, messages: keyed.messages, stream: true })),
  },
  'completions.create': {
    'a long text': { path: '/v1/completions', body: () => ({ model: CHAT, prompt: text(KILOBYTES * 1_000) }) },
  },
  'messages.create': {
    'a long history': message(() => ({ messages: history() })),
    'a document': message(() => ({
      messages: parts({
        type: 'document',
        source: { type: 'base64', media_type: 'application/pdf', data: base64(900_000) },
      }),
    })),
  },
  'responses.create': {
    'a long history': responseBody(() => ({ input: history() })),
    'an inline PDF': responseBody(() => ({
      input: parts({ type: 'input_file', filename: 'a.pdf', file_data: pdf() }),
    })),
    'an uploaded PDF': responseBody(() => ({ input: parts({ type: 'input_file', file_id: file }) })),
    'an earlier response': responseBody(() => ({ input: 'And?', previous_response_id: response })),
    'item references': responseBody(() => ({
      input: [
        ...Array.from({ length: 100 }, () => ({ type: 'item_reference', id: item })),
        { role: 'user', content: 'And?' },
      ],
    })),
  },
  'responses.compact': {
    'a long history': { path: '/v1/responses/compact', body: () => ({ model: CHAT, input: history() }) },
  },
  'embeddings.create': {
    'many inputs': {
      path: '/v1/embeddings',
      body: () => ({ model: EMBEDDING, input: Array.from({ length: 2_000 }, () => text(450)) }),
    },
  },
  'rerank.create': {
    'many documents': {
      path: '/v1/rerank',
      body: () => ({ model: RERANK, query: 'tree', documents: Array.from({ length: 1_000 }, () => text(900)) }),
    },
  },
  'transcriptions.create': {
    'a recording': {
      path: '/v1/audio/transcriptions',
      body() {
        const form = new FormData();
        form.set('model', AUDIO);
        form.set('file', new Blob([new Uint8Array(900_000)]), 'a.wav');
        return form;
      },
    },
  },
  'translations.create': {
    'a recording': {
      path: '/v1/audio/translations',
      body() {
        const form = new FormData();
        form.set('model', AUDIO);
        form.set('file', new Blob([new Uint8Array(900_000)]), 'a.wav');
        return form;
      },
    },
  },
};

/** Of the inference scopes, these run no model or cost nothing. */
const NOT_BILLED: readonly Operation[] = [
  'messages.countTokens',
  'responses.countTokens',
  'responses.get',
  'responses.delete',
  'responses.cancel',
  'responses.inputItems.list',
  'conversations.create',
  'conversations.get',
  'conversations.update',
  'conversations.delete',
  'conversations.items.list',
  'conversations.items.create',
  'conversations.items.get',
  'conversations.items.delete',
];

function chatBody(body: () => object) {
  return { path: '/v1/chat/completions', body };
}
function message(body: () => object) {
  return { path: '/v1/messages', body: () => ({ model: CHAT, max_tokens: 10, ...body() }) };
}
function responseBody(body: () => object) {
  return { path: '/v1/responses', body: () => ({ model: CHAT, ...body() }) };
}
function parts(part: object) {
  return [{ role: 'user', content: [part] }];
}

const cases = Object.values(BODIES).flatMap((bodies) =>
  Object.entries(bodies).map(([name, { path, body }]) => ({ path, name, body })),
);

describe('a key with a spent budget', () => {
  it('has a case here for each operation that is billed', () => {
    const operations = Object.keys(OPERATIONS) as Operation[];
    const billed = operations.filter((each) => isInference(each) && !NOT_BILLED.includes(each));
    expect(Object.keys(BODIES).toSorted()).toEqual(billed.toSorted());
  });

  it.each(cases)('is refused by $path with $name for what parsing its body costs', async ({ path, body }) => {
    const sent = body();
    const request = new Request('http://localhost', {
      method: 'POST',
      body: sent instanceof FormData ? sent : JSON.stringify(sent),
      ...(!(sent instanceof FormData) && { headers: { 'content-type': 'application/json' } }),
    });
    await using client = startClientThread({
      url: `${bed.address}${path}`,
      method: 'POST',
      headers: { ...Object.fromEntries(request.headers), authorization: `Bearer ${key.secret}` },
      body: await request.bytes(),
    });
    const calls = upstream.requests.length + encoder.requests.length;
    const allowedMs = MOST_CPU_MS * slowness();
    let least = Number.POSITIVE_INFINITY;
    for (let run = 0; run < RUNS && least >= allowedMs; run += 1) {
      const before = process.threadCpuUsage();
      const { status, text } = await client.send();
      const { user, system } = process.threadCpuUsage(before);
      least = Math.min(least, (user + system) / 1_000);
      expect([status, text]).toEqual([429, expect.stringMatching(/monthly budget/)]);
    }
    expect(least).toBeLessThan(allowedMs);
    expect(upstream.requests.length + encoder.requests.length).toBe(calls);
  });

  it('still gets the answers of requests that it has paid', async () => {
    const again = await ask(key.secret);
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
  });
});
