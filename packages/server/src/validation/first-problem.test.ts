import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { describe, expect, it } from 'vitest';
import { CreateBatchRequest } from '../http/endpoints/batches/schema.ts';
import { ChatCompletionRequest } from '../http/endpoints/chat/schema.ts';
import { CompletionRequest } from '../http/endpoints/completions/schema.ts';
import { EmbeddingRequest } from '../http/endpoints/embeddings/schema.ts';
import { RerankRequest } from '../http/endpoints/rerank/schema.ts';
import { findProblem, firstProblem, type Problem } from './first-problem.ts';

function run(steps: Generator<void, Problem | undefined>): { problem: Problem | undefined; pauses: number } {
  for (let pauses = 0; ; pauses += 1) {
    const step = steps.next();
    if (step.done) return { problem: step.value, pauses };
  }
}

const model = 'acme/model';
const bodies: [name: string, schema: TSchema, body: unknown][] = [
  ['a text', EmbeddingRequest, { model, input: 'a', dimensions: 5, encoding_format: 'base64', user: null }],
  ['texts', EmbeddingRequest, { model, input: ['a', 'b', 'c'] }],
  ['token ids', EmbeddingRequest, { model, input: [1, 2, 3] }],
  ['arrays of token ids', EmbeddingRequest, { model, input: [[1, 2], [3], [4, 5, 6]], extra: { any: ['thing'] } }],
  ['documents', RerankRequest, { model, query: 'q', documents: ['a', { text: 'b' }], top_n: 1 }],
  [
    'a conversation',
    ChatCompletionRequest,
    {
      model,
      messages: [
        { role: 'system', content: 'a' },
        { role: 'user', content: [{ type: 'text', text: 'a' }, { type: 'refusal' }], name: null },
        { role: 'assistant', tool_calls: [{ id: '1', function: { name: 'f', arguments: '{}' } }] },
      ],
      stop: ['a', 'b'],
      logit_bias: { 1: 5, 20: -5 },
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { a: {} } } } }],
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { enum: [1, 'a', null] } } },
      functions: [],
    },
  ],
  ['a prompt', CompletionRequest, { model, prompt: [1, 2, 3], stop: 'a' }],
  [
    'a batch',
    CreateBatchRequest,
    { input_file_id: 'f', endpoint: '/v1/embeddings', completion_window: '24h', metadata: { a: 'b' } },
  ],
];

const REPLACEMENTS: unknown[] = [
  null,
  '',
  'text',
  5,
  -1,
  1.5,
  true,
  [],
  {},
  [''],
  [[]],
  [5, 'a'],
  { text: 5 },
  { type: 'x' },
];

/** The value with one of its parts replaced, or without it: all of these. */
function* variants(value: unknown): Generator<unknown> {
  yield* REPLACEMENTS;
  if (typeof value !== 'object' || value === null) return;
  for (const name of Object.keys(value)) {
    const part = (value as Record<string, unknown>)[name];
    for (const variant of variants(part)) {
      const copy = structuredClone(value) as Record<string, unknown>;
      copy[name] = variant;
      yield copy;
    }
    if (Array.isArray(value)) continue;
    const { [name]: _, ...rest } = value as Record<string, unknown>;
    yield rest;
  }
}

describe('findProblem', () => {
  it.each(bodies)(
    'says of %s in steps what the compiled check says at once, and of all that is wrong with it',
    (_, schema, body) => {
      const validator = Compile(schema);
      expect(run(findProblem(schema, body, () => true)).problem).toBeUndefined();
      let refused = 0;
      for (const variant of variants(body)) {
        const { problem } = run(findProblem(schema, variant, () => true));
        const expected = validator.Check(variant) ? undefined : firstProblem(schema, variant);
        expect(problem, JSON.stringify(variant)).toEqual(expected);
        refused += expected === undefined ? 0 : 1;
      }
      expect(refused).toBeGreaterThan(10);
    },
  );

  it('pauses within what is large, and nowhere else', () => {
    const rows = Array.from({ length: 500 }, () => [1, 2, 3]);
    const ids = Array.from({ length: 10_000 }, (_, index) => index);
    const isLarge = (value: unknown) => value === rows || value === ids;
    const pauses = (input: unknown) => run(findProblem(EmbeddingRequest, { model, input }, () => true)).pauses;
    expect(pauses(rows)).toBeGreaterThanOrEqual(500);
    expect(pauses(ids)).toBeGreaterThanOrEqual(10_000 / 256);
    expect(run(findProblem(EmbeddingRequest, { model, input: rows }, isLarge)).pauses).toBe(0);
  });
});
