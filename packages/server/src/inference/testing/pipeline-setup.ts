import { forEachMeasure } from '@baobab/core/domain/measures.ts';
import type { ModelEntry, ResolvedModel } from '@baobab/core/domain/model.ts';
import type { ApiKey } from '@baobab/core/domain/principal.ts';
import type { EngineModel } from '@baobab/core/engine/engine.ts';
import type { Counters } from '@baobab/core/ports/counters.ts';
import type { LedgerRow } from '@baobab/core/ports/ledger.ts';
import type { StoreHealth } from '@baobab/core/ports/store-health.ts';
import { account, apiKey } from '../../../../../test/contracts/key-fixtures.ts';
import { createMemoryCounters } from '../../adapters/counters/memory.ts';
import { createMetering } from '../../metering/metering.ts';
import type { InferenceCall } from '../call.ts';
import { createLimits } from '../limits/limits.ts';
import { createInference } from '../pipeline.ts';
import type { InferenceSession } from '../session.ts';

const usual = { rpm: 600, tpm: 200_000 };
const defaults = {
  chat: usual,
  audio: usual,
  embedding: usual,
  rerank: usual,
  concurrency: 0,
  budgetWarningPercent: 80,
};
const unlimited = { rpm: null, tpm: null, concurrency: null, monthlyBudgetNanoUsd: null };
export const noImages = {
  check: async () => [],
  load: async () => ({ inputs: [], [Symbol.dispose]() {} }),
};

/** A model of any modality. A completion token is 1 000 nano-dollars, a prompt token 1, a second of audio 1 000. */
export const entry = {
  slug: 'acme/one',
  modality: 'chat',
  contextLength: 32_768,
  maxOutputTokens: null,
  limits: undefined,
  capabilities: {},
  pricing: { promptPerMillion: 0.001, completionPerMillion: 1, cacheReadPerMillion: null, audioPerMinute: 0.00006 },
} as unknown as ModelEntry;
/** Ten times the price. */
const second = {
  ...entry,
  slug: 'acme/two',
  pricing: { promptPerMillion: 0.01, completionPerMillion: 10, cacheReadPerMillion: null, audioPerMinute: null },
} as ModelEntry;
const version = { version: '2026-01-31', deprecatedAt: null } as ModelEntry['versions'][number];

/** For work whose bounds are not the subject of a test. */
export const ANY = { ...forEachMeasure(() => 1_000_000), cacheReadTokens: 0 };

export const spentIn = (rows: readonly LedgerRow[]): number =>
  rows.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0);

interface PipelineSetting {
  key?: Partial<ApiKey>;
  engine?: Partial<EngineModel>;
  model?: Partial<ModelEntry>;
  counters?: Counters;
  /** Of this replica. */
  ownerId?: string;
  /** The ledger that replicas share. */
  rows?: LedgerRow[];
  store?: Pick<StoreHealth, 'back'>;
  /** The engine runs here. */
  countsAreTrue?: true | undefined;
  /** What the ledger says instead. */
  spentNanoUsd?: bigint;
}

/** The whole pipeline, with counters in memory and a ledger in an array. */
export function setUp(setting: PipelineSetting = {}) {
  const { key, engine = {}, model, counters = createMemoryCounters(), ownerId = 'test', rows = [] } = setting;
  const steps: string[] = [];
  const ledger = {
    /** Set by a test that wants to hold commits back. */
    held: undefined as Promise<void> | undefined,
    async append(more: readonly LedgerRow[]) {
      await ledger.held;
      return more.map((row) => {
        const isNew = !rows.some(({ billingId }) => billingId === row.billingId);
        if (isNew) rows.push(row);
        return isNew;
      });
    },
    async appendFresh(more: readonly LedgerRow[]) {
      await ledger.append(more);
    },
  };
  const clock = { now: () => Date.UTC(2026, 10, 15) };
  const usage = { query: async () => [], spentNanoUsd: async () => setting.spentNanoUsd ?? BigInt(spentIn(rows)) };
  const inference = createInference({
    catalog: {
      find: () => undefined,
      resolve: (reference: string, { regionPin }: { regionPin: string | undefined }) => ({
        reference,
        entry: { ...(reference === 'acme/two' ? second : entry), ...model },
        version,
        regionPin,
      }),
    } as never,
    limits: createLimits({
      counters,
      usage,
      clock,
      identity: { ownerId, leaseMs: 15_000 },
      defaults,
    }),
    metering: createMetering({ ledger, clock }),
    store: setting.store ?? { back: () => undefined },
    engines: {
      async acquire({ entry: { slug } }: ResolvedModel) {
        steps.push(`acquire ${slug}`);
        return {
          engine: engine as EngineModel,
          region: 'local',
          countsAreTrue: setting.countsAreTrue,
          [Symbol.dispose]: () => void steps.push(`release ${slug}`),
        };
      },
    },
    region: 'local',
    batchLimitFactor: 1,
    clock,
  });
  const principal = { account: account({ monthlyBudgetNanoUsd: null }), key: apiKey({ ...unlimited, ...key }) };
  let requests = 0;
  const call = (changes: Partial<InferenceCall> = {}): InferenceCall => ({
    requestId: `req_${ownerId === 'test' ? '' : ownerId}${requests++}`,
    principal,
    regionPin: undefined,
    signal: new AbortController().signal,
    priority: 'interactive',
    endpoint: '/v1/x',
    ...changes,
  });
  const run = <T>(changes: Partial<InferenceCall>, work: (session: InferenceSession) => Promise<T>, tokens = 0) => {
    const bound = () => ({ tokens, most: ANY });
    return inference.run(call(changes), { modality: 'chat', model: 'acme/one', bound, run: work });
  };
  return { rows, steps, ledger, inference, call, run };
}
