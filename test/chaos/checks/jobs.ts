import type { EngineCall } from '../cluster/engine.ts';
import { mayRepeat } from '../faults.ts';
import { type BackgroundResponse, type StoredResponse, textOf } from '../load/background-lane.ts';
import type { Account } from '../load/caller.ts';
import type { Timeline } from '../timeline.ts';
import type { LedgerRow } from './ledger.ts';
import { patientGet } from './patient-get.ts';

/** Another server takes over 15 s after a lease was renewed, and looks for work now and then. */
const TAKEOVER_MS = 60_000;

/** A job runs again only when a fault has taken it from its server, or its result. */
export function checkRepeats(calls: readonly EngineCall[], timeline: Timeline): string[] {
  const runs = Map.groupBy(
    calls.filter(({ job }) => job !== undefined),
    ({ job }) => job,
  );
  return [...runs].flatMap(([job, all]) =>
    all.slice(1).flatMap((call, index) => {
      const before = all[index]?.startMs ?? 0;
      const seen = timeline.kindsBefore(call.startMs, Math.max(TAKEOVER_MS, call.startMs - before));
      if (mayRepeat(seen)) return [];
      const [first, again] = [before, call.startMs].map((ms) => (ms / 1000).toFixed(1));
      return [
        `${job} ran at ${first} s and again at ${again} s, and only ${[...seen].join(', ') || 'nothing'} was wrong`,
      ];
    }),
  );
}

/**
 * Each has ended well, says the same now, and is billed once. Without an engine for longer than its attempts take, it may fail. Notes how
 * each has ended.
 */
export async function checkBackground(
  address: string,
  {
    account,
    responses,
    rows,
    mayFail,
  }: {
    account: Account;
    responses: readonly BackgroundResponse[];
    rows: readonly LedgerRow[];
    mayFail: boolean;
  },
): Promise<string[]> {
  const found: string[] = [];
  let failed = 0;
  for (const response of responses) {
    const { id, status, text } = response;
    const stored = (await (await patientGet(address, account, `/v1/responses/${id}`)).json()) as StoredResponse;
    response.status = stored.status;
    if (stored.status === 'failed' && mayFail) failed += 1;
    else if (stored.status !== 'completed')
      found.push(`background ${id} is ${stored.status}: ${JSON.stringify(stored.error)}`);
    else if (status === 'completed' && textOf(stored) !== text)
      found.push(`background ${id} has changed after its end`);
  }
  const billed = rows.filter((row) => row.account === account.name).length;
  if (billed > responses.length || billed < responses.length - failed)
    found.push(`background: ${billed} rows in the ledger for ${responses.length} responses, ${failed} of them failed`);
  return found;
}
