import { describe, expect, it } from 'vitest';
import { createEmbeddings } from './embeddings.ts';
import type { InferenceCall, InferenceEstimate, InferenceService, InferenceSession } from './pipeline.ts';

const noImages = {
  check: async () => [],
  hold: <T>(_id: string, _images: unknown, request: () => Promise<T>) => request(),
};

/** A session whose ledger row ends as the test says. */
function setUp(settled: Promise<unknown>, inputs: readonly string[] = ['x'], estimates: InferenceEstimate[] = []) {
  const engine = {
    embedding: { embed: async () => ({ vectors: new Float32Array(2), dimensions: 2, tokens: [3] }) },
  };
  const session = { engine, context: {}, settle: () => settled } as unknown as InferenceSession;
  const inference = {
    resolve: () => ({ entry: { slug: 'acme/one', contextLength: 512, dimensions: 2, truncation: false } }),
    run: (
      _call: unknown,
      { estimate }: { estimate: InferenceEstimate },
      work: (session: InferenceSession) => Promise<unknown>,
    ) => {
      estimates.push(estimate);
      return work(session);
    },
  } as unknown as InferenceService;
  const command = { model: 'acme/one', inputs, dimensions: undefined };
  const { embed } = createEmbeddings({ inference, images: noImages });
  return <Answer>(write: () => Answer | Promise<Answer>) =>
    embed({} as InferenceCall, command, write).then(({ answer }) => answer);
}

describe('embeddings', () => {
  it('writes the answer while the row is stored, and returns it when the row is durable', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const events: string[] = [];
    const answer = setUp(promise)(() => {
      events.push('written');
      return 'answer';
    }).then((text) => events.push(text));
    await new Promise((done) => setImmediate(done));
    expect(events).toEqual(['written']);
    resolve();
    await answer;
    expect(events).toEqual(['written', 'answer']);
  });

  it('fails with the row, whether or not the answer fails as well', async () => {
    const failed = Promise.reject(new Error('disk full'));
    failed.catch(() => {});
    await expect(setUp(failed)(() => 'answer')).rejects.toThrow('disk full');
    await expect(setUp(failed)(() => Promise.reject(new Error('no memory')))).rejects.toThrow('disk full');
  });

  it('fails with the answer', async () => {
    const write = () => Promise.reject(new Error('no memory'));
    await expect(setUp(Promise.resolve())(write)).rejects.toThrow('no memory');
  });

  it('are estimated as the context at most, each input', async () => {
    const estimates: InferenceEstimate[] = [];
    await setUp(Promise.resolve(), ['four', 'ሀ'.repeat(1_000), 'ሀ'.repeat(1_000)], estimates)(() => 'answer');
    expect(estimates).toEqual([{ tokens: 3 + 512 + 512, used: { promptTokens: 3 + 512 + 512 } }]);
  });
});
