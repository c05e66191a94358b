import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { UnkeptFields } from '../../../packages/server/src/http/body/unkept.ts';
import { ChatCompletionRequest } from '../../../packages/server/src/http/endpoints/chat/schema.ts';
import { CompletionRequest } from '../../../packages/server/src/http/endpoints/completions/schema.ts';
import {
  EmbeddingRequest,
  UNKEPT_IN_EMBEDDINGS,
} from '../../../packages/server/src/http/endpoints/embeddings/schema.ts';
import { RerankRequest, UNKEPT_IN_RERANK } from '../../../packages/server/src/http/endpoints/rerank/schema.ts';
import {
  TranscriptionRequest,
  TranslationRequest,
  UNKEPT_IN_TRANSCRIPTIONS,
  UNKEPT_IN_TRANSLATIONS,
} from '../../../packages/server/src/http/endpoints/transcriptions/schema.ts';
import { UNKEPT_IN_GENERATION } from '../../../packages/server/src/http/generation/request.ts';
import { startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import { CHAT, EMBEDDING, type HttpBed, startHttpBed } from './bed.ts';

const RERANK = 'baai/bge-reranker-v2-m3';
const AUDIO = 'openai/whisper-large-v3-turbo';
const WAV = readFileSync(join(import.meta.dirname, '../../fixtures/audio/apples.wav'));

interface Endpoint {
  /** As docs/api.md calls it. */
  name: string;
  unkept: UnkeptFields;
  schemas: readonly { properties: Record<string, object> }[];
  send(bed: HttpBed, fields: Readonly<Record<string, unknown>>): Promise<Response>;
}

const chat = { model: CHAT, messages: [{ role: 'user', content: 'Hello' }] };

function form(fields: Readonly<Record<string, unknown>>): FormData {
  const data = new FormData();
  for (const [name, value] of Object.entries({ model: AUDIO, ...fields })) data.append(name, String(value));
  data.append('file', new Blob([WAV]), 'apples.wav');
  return data;
}

const ENDPOINTS: readonly Endpoint[] = [
  {
    name: 'chats and completions',
    unkept: UNKEPT_IN_GENERATION,
    schemas: [ChatCompletionRequest, CompletionRequest],
    send: (bed, fields) => bed.post('/v1/chat/completions', { ...chat, ...fields }),
  },
  {
    name: 'embeddings',
    unkept: UNKEPT_IN_EMBEDDINGS,
    schemas: [EmbeddingRequest],
    send: (bed, fields) => bed.post('/v1/embeddings', { model: EMBEDDING, input: 'one', ...fields }),
  },
  {
    name: 'rerank',
    unkept: UNKEPT_IN_RERANK,
    schemas: [RerankRequest],
    send: (bed, fields) => bed.post('/v1/rerank', { model: RERANK, query: 'one', documents: ['one'], ...fields }),
  },
  {
    name: 'transcriptions',
    unkept: UNKEPT_IN_TRANSCRIPTIONS,
    schemas: [TranscriptionRequest],
    send: (bed, fields) => bed.fetch('/v1/audio/transcriptions', { method: 'POST', body: form(fields) }),
  },
  {
    name: 'translations',
    unkept: UNKEPT_IN_TRANSLATIONS,
    schemas: [TranslationRequest],
    send: (bed, fields) => bed.fetch('/v1/audio/translations', { method: 'POST', body: form(fields) }),
  },
];

const page = readFileSync(join(import.meta.dirname, '../../../docs/api.md'), 'utf8');
function listed(verb: 'Refused' | 'Ignored', { name }: Endpoint): string[] {
  const item = page.split(`- ${verb} in ${name}: `)[1]?.split(/\.(?:\s|$)/, 1)[0] ?? '';
  return [...item.matchAll(/`(\w+)`/g)].map(([, field = '']) => field);
}

/** Of no type and value that anybody asks for; chats declare the type of some. */
const TYPED: Readonly<Record<string, unknown>> = { functions: [{ name: 'f' }], web_search_options: { a: 1 } };

const encoder = await startFakeUpstream('tei', { dimensions: 1024, contextLength: 8192 });
const other = await startFakeUpstream('vllm');
const bed = await startHttpBed({
  upstreams: [
    { model: CHAT, url: other.url, kind: 'vllm' },
    { model: AUDIO, url: other.url, kind: 'vllm' },
    { model: EMBEDDING, url: encoder.url, kind: 'tei' },
    { model: RERANK, url: encoder.url, kind: 'tei' },
  ],
});
afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await Promise.all([encoder.close(), other.close()]);
});

describe.each(ENDPOINTS)('unknown fields of $name', (endpoint) => {
  it('that would change the answer are refused, and listed in docs/api.md', async () => {
    expect(listed('Refused', endpoint)).toEqual(Object.keys(endpoint.unkept));
    for (const field of Object.keys(endpoint.unkept)) {
      const answer = await endpoint.send(bed, { [field]: TYPED[field] ?? 'something else' });
      expect([field, answer.status, await answer.json()]).toMatchObject([
        field,
        422,
        { error: { code: 'unsupported_parameter', param: field } },
      ]);
    }
  });

  it('that docs/api.md lists as ignored change nothing, and no schema has them', async () => {
    const fields = listed('Ignored', endpoint);
    expect(fields).toEqual(fields.toSorted());
    expect(fields).toContain('user');
    for (const { properties } of endpoint.schemas) {
      const known = fields.filter((field) => !/ignored/.test(JSON.stringify(properties[field] ?? 'ignored')));
      expect(known).toEqual([]);
    }
    const answer = await endpoint.send(bed, Object.fromEntries(fields.map((field) => [field, 'x'])));
    expect([answer.status, await answer.text()]).toMatchObject([200, expect.any(String)]);
  });
});

describe('a form of a transcription', () => {
  it.each([
    ['include[]', 'logprobs', 'include'],
    ['chunking_strategy[type]', 'server_vad', 'chunking_strategy'],
    ['known_speaker_names[]', 'agent', 'known_speaker_names'],
  ])('is refused with %s', async (name, value, param) => {
    const answer = await bed.fetch('/v1/audio/transcriptions', { method: 'POST', body: form({ [name]: value }) });
    expect(await answer.json()).toMatchObject({ error: { code: 'unsupported_parameter', param } });
  });
});
