import type { Batch } from '@baobab/core/domain/batch.ts';
import { type Consumption, NOTHING_USED } from '@baobab/core/domain/measures.ts';
import type { Principal } from '@baobab/core/domain/principal.ts';
import type { UpstreamAttempt } from '@baobab/core/domain/upstream-attempt.ts';
import type { RequestEntry } from '@baobab/core/ports/request-log.ts';
import type { InferenceObserver } from '../../inference/call.ts';

const MAX_ATTEMPTS = 16;

export interface LineEnd {
  status: number;
  /** Error code. */
  code: string | null;
  time: number;
  durationMs: number;
}

/** Collects what the list of requests holds about one line of a batch. */
export function createLineTrace(requestId: string) {
  let model: string | null = null;
  let version: string | null = null;
  let region: string | null = null;
  let used: Consumption = NOTHING_USED;
  let costNanoUsd = 0;
  let firstTokenMs: number | null = null;
  const attempts: UpstreamAttempt[] = [];

  const observer: InferenceObserver = {
    decided(facts) {
      model = facts.slug;
      version = facts.version;
    },
    settled(bill) {
      ({ slug: model, version, region, used, costNanoUsd } = bill);
      firstTokenMs = bill.firstTokenMs === null ? null : Math.round(bill.firstTokenMs);
    },
    attempted(attempt) {
      if (attempts.length < MAX_ATTEMPTS) attempts.push(attempt);
    },
  };

  return {
    observer,
    entry({ endpoint }: Batch, { account, key }: Principal, { status, code, time, durationMs }: LineEnd): RequestEntry {
      const names = { id: requestId, time, accountId: account.id, keyId: key.id, endpoint, model, version, region };
      return { ...names, ...used, status, code, costNanoUsd, durationMs, firstTokenMs, replayed: false, attempts };
    },
  };
}
