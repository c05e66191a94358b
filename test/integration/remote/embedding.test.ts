import { afterEach, describe, expect, it } from 'vitest';
import type { EmbeddingRequest } from '../../../packages/core/src/engine/engine.ts';
import type { RemoteEmbeddingResult } from '../../../packages/server/src/upstreams/embedding.ts';
import { countFakeTokens, cutFakeText, fakeVector } from '../../fixtures/fake-encoder.ts';
import { answerJson, type FakeHandler } from '../../fixtures/fake-upstream.ts';
import { type BenchOptions, type RemoteBench, remoteBench } from '../../fixtures/remote-bench.ts';

let bench: RemoteBench;
afterEach(() => bench.close());

async function start(upstreams: BenchOptions['upstreams'], model: BenchOptions['model'] = {}): Promise<void> {
  bench = await remoteBench({ upstreams, model: { task: 'embedding', ...model } });
}

function embed(request: EmbeddingRequest, signal?: AbortSignal): Promise<RemoteEmbeddingResult> {
  const { embedding } = bench.engine();
  if (embedding === undefined) throw new Error('not an embedding model');
  return embedding.embed(request, bench.context(signal === undefined ? {} : { signal }));
}

const unit = (values: readonly number[]): number[] => {
  const length = Math.hypot(...values);
  return values.map((value) => value / length);
};
const texts = (count: number): string[] =>
  Array.from({ length: count }, (_, i) => `text number ${i} ${'x '.repeat(i % 7)}`);

function expectVectors(result: RemoteEmbeddingResult, inputs: readonly string[], dimensions = 8): void {
  expect(result.dimensions).toBe(dimensions);
  expect(result.vectors).toHaveLength(inputs.length * dimensions);
  for (const [i, input] of inputs.entries()) {
    const expected = unit(fakeVector(input, 8).slice(0, dimensions));
    const given = result.vectors.subarray(i * dimensions, (i + 1) * dimensions);
    for (const [j, value] of expected.entries()) expect(given[j]).toBeCloseTo(value, 5);
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

describe.each(['openai', 'vllm', 'tei', 'llama-server', 'ollama', 'baobab'] as const)(
  'embeddings through %s',
  (kind) => {
    it('keep the order, have unit length, and their tokens add up to what the upstream counted', async () => {
      await start([{ kind }]);
      const inputs = texts(300);
      const result = await embed({ inputs });
      expectVectors(result, inputs);
      expect(sum(result.tokens)).toBe(sum(inputs.map(countFakeTokens)));
      expect(result.tokens.every((tokens) => tokens > 0)).toBe(true);
      expect(result.servedRegion).toBe('local');
    });

    it('are cut and normalised again for fewer dimensions', async () => {
      await start([{ kind }]);
      expectVectors(await embed({ inputs: ['a b', 'c'], dimensions: 3 }), ['a b', 'c'], 3);
    });
  },
);

describe('embeddings', () => {
  it('are requested in base64 and also read as plain numbers', async () => {
    await start([{ behaviour: { knowsBase64: false } }]);
    expectVectors(await embed({ inputs: ['a', 'b'] }), ['a', 'b']);
    expect(bench.upstreams[0]?.requests[0]?.body).toEqual({
      model: 'upstream-model',
      input: ['a', 'b'],
      encoding_format: 'base64',
    });
  });

  it('are sorted by their index', async () => {
    await start([{}]);
    const item = (index: number) => ({ object: 'embedding', index, embedding: fakeVector(['a', 'b'][index] ?? '', 8) });
    bench.upstreams[0]?.script.push(
      answerJson(200, { data: [item(1), item(0)], usage: { prompt_tokens: 6, total_tokens: 6 } }),
    );
    expectVectors(await embed({ inputs: ['a', 'b'] }), ['a', 'b']);
  });

  it.each(['openai', 'vllm', 'tei', 'llama-server', 'baobab'] as const)(
    'take token ids as they are (%s)',
    async (kind) => {
      await start([{ kind }]);
      const inputs = [[101, 1, 2, 102], [3], [0, 0]];
      const result = await embed({ inputs });
      expectVectors(result, ['t101 t1 t2 t102', 't3', 't0 t0']);
      const [request, ...others] = bench.upstreams[0]?.requests ?? [];
      expect(others).toEqual([]);
      expect(request?.body).toMatchObject(kind === 'tei' ? { inputs } : { input: inputs });
    },
  );

  it('refuse token ids before any call for Ollama, which knows only text', async () => {
    await start([{ kind: 'ollama' }]);
    for (const inputs of [[[1, 2]], [[1, 2], [3]]]) {
      await expect(embed({ inputs })).rejects.toMatchObject({
        code: 'unsupported_parameter',
        status: 422,
        param: 'inputs',
      });
    }
    expect(bench.upstreams[0]?.requests).toEqual([]);
  });

  it('refuse more dimensions than the vectors have', async () => {
    await start([{}]);
    await expect(embed({ inputs: ['a'], dimensions: 9 })).rejects.toMatchObject({
      code: 'unsupported_parameter',
      param: 'dimensions',
    });
  });

  it('have estimated tokens when the upstream reports none', async () => {
    await start([{}]);
    bench.upstreams[0]?.script.push(answerJson(200, { data: [{ index: 0, embedding: fakeVector('abcdefgh', 8) }] }));
    expect((await embed({ inputs: ['abcdefgh'] })).tokens).toEqual([2]);
    const embedding = fakeVector('a', 8);
    const data = [0, 1].map((index) => ({ index, embedding }));
    bench.upstreams[0]?.script.push(answerJson(200, { data }));
    // By its bytes, and an input has at most the context.
    expect((await embed({ inputs: ['你好', '你'.repeat(1_000)] })).tokens).toEqual([2, 64]);
  });

  it.each([-1, 1.5, 1e300])('have estimated tokens when the upstream reports %s', async (prompt_tokens) => {
    await start([{}]);
    const data = [{ index: 0, embedding: fakeVector('abcdefgh', 8) }];
    bench.upstreams[0]?.script.push(answerJson(200, { data, usage: { prompt_tokens } }));
    expect((await embed({ inputs: ['abcdefgh'] })).tokens).toEqual([2]);
  });

  it.each([
    ['too few vectors', { data: [] }],
    [
      'vectors of NaN, which JSON writes as null',
      { data: [0, 1].map((index) => ({ index, embedding: [null, null] })) },
    ],
    ['no vectors', { hello: 1 }],
    ['parts that are no numbers', { data: [0, 1].map((index) => ({ index, embedding: [1, 'x'] })) }],
    [
      'a vector of another length',
      {
        data: [
          { index: 0, embedding: [1, 2] },
          { index: 1, embedding: [1] },
        ],
      },
    ],
  ])('fail on %s', async (_name, body) => {
    await start([{}]);
    bench.upstreams[0]?.script.push(answerJson(200, body));
    await expect(embed({ inputs: ['a', 'b'] })).rejects.toMatchObject({ code: 'model_unavailable' });
  });
});

describe('an upstream that was not started for embeddings', () => {
  const refusal = answerJson(501, { error: 'This server does not support embeddings. Start it with `--embeddings`' });

  it('answers 422 each time, and operators see why', async () => {
    await start([{ kind: 'ollama' }]);
    bench.upstreams[0]?.script.push(...Array.from({ length: 8 }, () => refusal));
    for (let i = 0; i < 8; i++) {
      await expect(embed({ inputs: ['a', 'b'] })).rejects.toMatchObject({ status: 422, code: 'wrong_modality' });
    }
    const problem = 'status 501: This server does not support embeddings. Start it with `--embeddings`';
    expect(bench.model.health()).toMatchObject([{ healthy: true, misconfigured: true, problem }]);
    expect(bench.log).toEqual([
      { fields: expect.objectContaining({ problem }), message: 'upstream refuses this task, check how it was started' },
    ]);
    // It was started again.
    await embed({ inputs: ['a'] });
    expect(bench.model.health()).toMatchObject([{ healthy: true, problem: undefined }]);
  });

  it('leaves the request to another one', async () => {
    await start([{ kind: 'llama-server' }, { kind: 'llama-server' }]);
    bench.upstreams[0]?.script.push(refusal);
    expectVectors(await embed({ inputs: ['a'] }), ['a']);
    expect(bench.upstreams.map(({ requests }) => requests.length)).toEqual([1, 1]);
  });
});

describe('TEI', () => {
  it('is called with 32 inputs at a time, never truncating', async () => {
    await start([{ kind: 'tei' }]);
    await embed({ inputs: texts(70) });
    const bodies = bench.upstreams[0]?.requests.map(
      (request) => request.body as { inputs: string[]; truncate: boolean },
    );
    expect(bodies?.map((body) => body.inputs.length).toSorted()).toEqual([32, 32, 6]);
    expect(bodies?.every((body) => body.truncate === false)).toBe(true);
    expect(bench.upstreams[0]?.requests[0]?.path).toBe('/embed');
  });

  it.each([413, 422])('with a smaller batch size is remembered (%i)', async (teiRefusalStatus) => {
    await start([{ kind: 'tei', behaviour: { maxInputsPerCall: 5, teiRefusalStatus } }]);
    const inputs = texts(64);
    expectVectors(await embed({ inputs }), inputs);
    const before = bench.upstreams[0]?.requests.length ?? 0;
    expectVectors(await embed({ inputs: inputs.slice(0, 20) }), inputs.slice(0, 20));
    expect((bench.upstreams[0]?.requests.length ?? 0) - before).toBe(4);
  });

  it('gets smaller calls when the payload is too large', async () => {
    await start([{ kind: 'tei' }]);
    bench.upstreams[0]?.script.push(answerJson(413, 'length limit exceeded'));
    const inputs = texts(20);
    expectVectors(await embed({ inputs }), inputs);
    expect(bench.upstreams[0]?.requests.map((request) => (request.body as { inputs: string[] }).inputs.length)).toEqual(
      [20, 10, 10],
    );
  });

  it('never gets a body of more than two megabytes', async () => {
    await start([{ kind: 'tei', behaviour: { contextLength: 10_000_000 } }]);
    await embed({ inputs: Array.from({ length: 10 }, (_, i) => `${i}${'漢'.repeat(150_000)}`) });
    const sizes = bench.upstreams[0]?.requests.map((request) => Number(request.headers['content-length'])) ?? [];
    expect(Math.max(...sizes)).toBeLessThan(2_000_000);
  });
});

describe('an input that is too long', () => {
  const long = 'word '.repeat(100);
  const inputs = [...texts(40), long, ...texts(3)];

  it.each([
    ['tei', 413],
    ['tei', 422],
    ['vllm', 0],
  ] as const)('is named with its place and the numbers by %s (%i)', async (kind, teiRefusalStatus) => {
    await start([{ kind, behaviour: { teiRefusalStatus } }]);
    await expect(embed({ inputs })).rejects.toMatchObject({
      code: 'context_length_exceeded',
      status: 422,
      param: 'inputs[40]',
      message: expect.stringMatching(/context length is 64 tokens.*resulted in 102 tokens/),
    });
  });

  it.each(['openai', 'ollama'] as const)('is named when it is the only one (%s)', async (kind) => {
    await start([{ kind }]);
    await expect(embed({ inputs: [long] })).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'inputs[0]',
    });
  });

  it.each(['openai', 'ollama'] as const)('is named among others when the upstream cannot count (%s)', async (kind) => {
    await start([{ kind }]);
    await expect(embed({ inputs })).rejects.toMatchObject({ code: 'context_length_exceeded', param: 'inputs[40]' });
  });

  it('is found by its characters where TEI does not count it', async () => {
    await start([{ kind: 'tei' }]);
    const error = 'Input validation error: `inputs` must have less than 1000 characters. Given: 1200';
    const refusal = answerJson(422, { error, error_type: 'Validation' });
    bench.upstreams[0]?.script.push(refusal, refusal);
    await expect(embed({ inputs: ['a', 'b'.repeat(1_200)] })).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'inputs[1]',
      message: expect.stringContaining("your 'inputs[1]' resulted in 65 tokens or more"),
    });
  });

  it('is named by another Baobab and mapped to its index in the whole request', async () => {
    await start([{ kind: 'baobab' }]);
    const message =
      "This model's maximum context length is 64 tokens. However, your 'input[3]' resulted in 102 tokens. Shorten or split it.";
    const refusal = { message, type: 'invalid_request_error', code: 'context_length_exceeded', param: 'input[3]' };
    const refuseTheRest: FakeHandler = (request, response) => {
      const { input } = request.body as { input: string[] };
      return input.length === 44 ? answerJson(422, { error: refusal })(request, response) : undefined;
    };
    bench.upstreams[0]?.script.push(refuseTheRest, refuseTheRest);
    await expect(embed({ inputs: texts(300) })).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'inputs[259]',
      message: expect.stringContaining("your 'inputs[259]' resulted in 102 tokens"),
    });
  });
});

describe('a large request', () => {
  it('is spread over all upstreams', async () => {
    await start([{ kind: 'tei' }, { kind: 'tei' }]);
    await embed({ inputs: texts(320) });
    expect(bench.upstreams.map((upstream) => upstream.requests.length)).toEqual([5, 5]);
  });

  it('stops its other calls when one fails', async () => {
    await start([{ kind: 'tei', behaviour: { firstByteDelayMs: 60_000 } }]);
    bench.upstreams[0]?.script.push(answerJson(400, { error: '`inputs` cannot be empty', error_type: 'Empty' }));
    await expect(embed({ inputs: texts(2048) })).rejects.toMatchObject({ code: 'invalid_parameter' });
    await bench.upstreams[0]?.until(
      () => bench.upstreams[0]?.requests.slice(1).every((request) => request.aborted) ?? false,
    );
    expect(bench.upstreams[0]?.requests.length).toBeLessThan(10);
    expect(bench.model.health()[0]?.inFlight).toBe(0);
  });

  it('stops when the caller cancels', async () => {
    await start([{ kind: 'tei', behaviour: { firstByteDelayMs: 60_000 } }]);
    const controller = new AbortController();
    const running = embed({ inputs: texts(100) }, controller.signal);
    const outcome = expect(running).rejects.toMatchObject({ code: 'client_cancelled' });
    await bench.upstreams[0]?.until(() => bench.upstreams[0]?.requests.length === 4);
    controller.abort();
    await outcome;
    await bench.upstreams[0]?.until(() => bench.upstreams[0]?.requests.every((request) => request.aborted) ?? false);
    expect(bench.model.health()[0]).toMatchObject({ inFlight: 0, healthy: true });
  });
});

describe('inputs that are cut', () => {
  const words = Array.from({ length: 100 }, (_, i) => `w${i}`).join(' ');
  const inputs = ['one two', words, 'three', `${words} more`, 'four'];
  const bodies = () => bench.upstreams[0]?.requests.map(({ body }) => body as Record<string, unknown>) ?? [];

  it.each(['vllm', 'tei', 'ollama', 'baobab'] as const)(
    'to the context are counted, billed as they were read, and cost the others nothing (%s)',
    async (kind) => {
      await start([{ kind }]);
      const result = await embed({ inputs, truncation: { side: 'end' } });
      const read = inputs.map((text) => cutFakeText(text, 64));
      expectVectors(result, read);
      expect(result.truncated).toBe(2);
      expect(sum(result.tokens)).toBe(sum(read.map(countFakeTokens)));
      // Nothing was cut without need.
      const plain = await embed({ inputs: texts(3), truncation: { side: 'end' } });
      expectVectors(plain, texts(3));
      expect(plain.truncated).toBe(0);
    },
  );

  it('are counted at the upstream only when one may have been cut', async () => {
    await start([{ kind: 'vllm' }]);
    const truncation = { side: 'end', maxTokens: 20 } as const;
    const paths = () => bench.upstreams[0]?.requests.map(({ path }) => path);
    // One word of many characters.
    expect((await embed({ inputs: ['x'.repeat(100)], truncation })).truncated).toBe(0);
    expect(paths()).toEqual(['/v1/embeddings']);
    expect((await embed({ inputs: [words], truncation })).truncated).toBe(1);
    expect(paths()?.slice(1)).toEqual(['/v1/embeddings', '/tokenize']);
  });

  it('are sent as they are while the upstream takes them', async () => {
    await start([{ kind: 'tei', behaviour: { contextLength: 10_000 } }]);
    const result = await embed({ inputs, truncation: { side: 'end' } });
    expectVectors(result, inputs);
    expect(result.truncated).toBe(0);
    expect(bodies()).toEqual([{ inputs, truncate: false, normalize: true }]);
  });

  it.each(['tei', 'baobab'] as const)('lose their start where the server can cut it (%s)', async (kind) => {
    await start([{ kind }]);
    const result = await embed({ inputs: [words], truncation: { side: 'start' } });
    expectVectors(result, [cutFakeText(words, 64, 'start')]);
    expect(result.truncated).toBe(1);
  });

  it.each(['openai', 'llama-server'] as const)('are refused where the server cannot cut them (%s)', async (kind) => {
    await start([{ kind }]);
    expectVectors(await embed({ inputs: ['one'], truncation: { side: 'end' } }), ['one']);
    await expect(embed({ inputs: inputs.slice(0, 3), truncation: { side: 'end' } })).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'inputs[1]',
    });
  });

  it.each(['vllm', 'baobab'] as const)('to a number of tokens have so many at most (%s)', async (kind) => {
    await start([{ kind }]);
    for (const maxTokens of [3, 7, 63, 64, 1_000]) {
      const result = await embed({ inputs, truncation: { side: 'end', maxTokens } });
      const limit = Math.min(maxTokens, 64);
      expectVectors(
        result,
        inputs.map((text) => cutFakeText(text, limit)),
      );
      expect(result.truncated).toBe(inputs.filter((text) => countFakeTokens(text) > limit).length);
      expect(sum(result.tokens)).toBe(sum(inputs.map((text) => Math.min(countFakeTokens(text), limit))));
    }
  });

  it.each(['openai', 'tei', 'ollama', 'llama-server'] as const)(
    'to a number of tokens are refused before any call where the server cannot do that (%s)',
    async (kind) => {
      await start([{ kind }]);
      const truncation = { side: 'end', maxTokens: 10 } as const;
      await expect(embed({ inputs, truncation })).rejects.toMatchObject({
        code: 'unsupported_parameter',
        param: 'truncation.maxTokens',
      });
      expect(bodies()).toEqual([]);
    },
  );

  it('may be token ids, at every server that takes them', async () => {
    await start([{ kind: 'openai' }]);
    const result = await embed({ inputs: [[1, 2, 3, 4], [5]], truncation: { side: 'start', maxTokens: 2 } });
    expect(bodies()).toMatchObject([{ input: [[3, 4], [5]] }]);
    expect(result.truncated).toBe(1);
  });

  it('are never cut by another Baobab because of its settings', async () => {
    await start([{ kind: 'baobab' }]);
    await expect(embed({ inputs: [words] })).rejects.toMatchObject({ code: 'context_length_exceeded' });
    expect(bodies()[0]).toMatchObject({ truncate: 'NONE' });
  });
});
