import type { ResolvedModel } from '@baobab/core/domain/model.ts';
import { describe, expect, it } from 'vitest';
import { account, apiKey } from '../../../../test/contracts/key-fixtures.ts';
import type { InferenceCall } from './call.ts';
import { createEmbeddings } from './embeddings.ts';
import type { BilledWork, Bounds } from './pipeline.ts';
import type { InferenceSession } from './session.ts';
import type { AskedTruncation } from './truncation.ts';

const noImages = {
  check: async () => [],
  load: async () => ({ inputs: [], [Symbol.dispose]() {} }),
};

/** A session whose ledger row ends as the test says. */
function setUp(
  settled: Promise<unknown>,
  inputs: readonly string[] = ['x'],
  estimates: Bounds[] = [],
  truncation?: AskedTruncation,
) {
  const embedding = { embed: async () => ({ vectors: new Float32Array(2), dimensions: 2, tokens: [3] }) };
  const session = { capability: () => embedding, context: {}, settle: () => settled } as unknown as InferenceSession;
  const entry = { slug: 'acme/one', contextLength: 512, dimensions: 2, truncation: false };
  const inference = {
    async run<Result>(_call: unknown, work: BilledWork<Result>) {
      estimates.push(await work.bound({ entry } as ResolvedModel));
      return work.run(session);
    },
  };
  const command = { model: 'acme/one', inputs, dimensions: undefined, truncation };
  const { embed } = createEmbeddings({ inference, images: noImages });
  return <Answer>(write: () => Answer | Promise<Answer>) =>
    embed({ principal: { account: account(), key: apiKey() } } as InferenceCall, command, write).then(
      ({ answer }) => answer,
    );
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
    const estimates: Bounds[] = [];
    await setUp(Promise.resolve(), ['four', 'ሀ'.repeat(1_000), 'ሀ'.repeat(1_000)], estimates)(() => 'answer');
    expect(estimates).toEqual([{ tokens: 3 + 512 + 512, most: { promptTokens: 4 + 64 + 512 + 512 } }]);
  });

  it('are estimated as the limit at most where they are cut', async () => {
    const estimates: Bounds[] = [];
    const inputs = ['four', 'ሀ'.repeat(1_000_000)];
    for (const maxTokens of [40, 9_999, undefined]) {
      await setUp(Promise.resolve(), inputs, estimates, { side: 'end', maxTokens })(() => 'answer');
    }
    expect(estimates.map(({ most }) => most.promptTokens)).toEqual([40 + 40, 68 + 512, 68 + 512]);
    await expect(setUp(Promise.resolve(), inputs, [], 'none')(() => 'answer')).rejects.toMatchObject({
      code: 'context_length_exceeded',
    });
  });
});
