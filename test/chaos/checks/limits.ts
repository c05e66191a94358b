import type { EngineCall } from '../cluster/engine.ts';
import type { TimelineEvent } from '../timeline.ts';
import { type AlonePeriod, isOfFailover, lossesBetween, sharesAlone } from './alone.ts';
import type { LedgerRow } from './ledger.ts';

export interface LimitReport {
  /** What was seen at most and what is allowed, in words. */
  text: string;
  findings: string[];
}

/** What docs/scaling.md allows on top while Redis is away is counted by the replicas' own logs. */
export interface LimitFacts {
  replicas: number;
  events: readonly TimelineEvent[];
  periods: readonly AlonePeriod[];
  /** Another Redis may take over. */
  hasSentinel?: boolean;
}

/**
 * A bucket holds one minute of its limit. A request is admitted after its client has sent it and before the engine gets it, so of the
 * requests sent after a moment, the engine gets no more until another one than a full bucket and what flowed in since. A replica
 * that lost Redis alone uses its share beside what the others use together. When Redis stops, levels go on from those that each
 * replica saw last: one share more.
 */
export function checkRate(
  { name, limit, amountOf }: { name: string; limit: number; amountOf: (call: EngineCall) => number },
  calls: readonly EngineCall[],
  facts: LimitFacts,
): LimitReport {
  const findings: string[] = [];
  const inOrder = calls.toSorted((left, right) => left.startMs - right.startMs);
  let most = 0;
  for (const { sentMs: fromMs } of calls) {
    let amount = 0;
    for (const call of inOrder) {
      if (call.sentMs < fromMs) continue;
      amount += amountOf(call);
      const allowed = limit * (1 + (call.startMs - fromMs) / 60_000);
      most = Math.max(most, amount / allowed);
      if (amount <= allowed || findings.length > 0) continue;
      const { restarts, alone, aloneMinutes } = lossesBetween(facts, fromMs, call.startMs);
      const extra = (limit / facts.replicas) * (restarts + alone + aloneMinutes);
      if (amount <= allowed + extra) continue;
      const seconds = ((call.startMs - fromMs) / 1000).toFixed(1);
      findings.push(
        `${name}: ${amount} within ${seconds} s, allowed are ${Math.floor(allowed)} and ${Math.floor(extra)} while replicas were alone`,
      );
    }
  }
  return {
    text: `${name}: at most ${(100 * most).toFixed(0)} % of a full bucket of ${limit} a minute and what flows in`,
    findings,
  };
}

/**
 * While a replica is without Redis, its running requests keep their places and it enforces its share. So each one that was without it
 * since the oldest running request was sent may run its share on top. At least one of them had used places of the limit itself.
 */
export function checkConcurrency(limit: number, calls: readonly EngineCall[], facts: LimitFacts): LimitReport {
  const steps = calls
    .flatMap((call) => [
      { atMs: call.startMs, call, isStart: true },
      { atMs: call.endMs ?? Number.POSITIVE_INFINITY, call, isStart: false },
    ])
    .toSorted((left, right) => left.atMs - right.atMs || Number(left.isStart) - Number(right.isStart));
  const findings: string[] = [];
  const running = new Set<EngineCall>();
  let most = 0;
  for (const { atMs, call, isStart } of steps) {
    if (isStart) running.add(call);
    else running.delete(call);
    most = Math.max(most, running.size);
    if (!isStart || running.size <= limit || findings.length > 0) continue;
    const oldestMs = Math.min(...[...running].map(({ sentMs }) => sentMs));
    const shares = sharesAlone(limit, facts.periods, oldestMs, atMs).slice(0, facts.replicas - 1);
    const twice = facts.hasSentinel && isOfFailover(facts.events, oldestMs, atMs) ? limit : 0;
    const extra = shares.reduce((sum, share) => sum + share, twice);
    if (running.size > limit + extra) {
      const ages = [...running].map(({ sentMs }) => ((atMs - sentMs) / 1000).toFixed(2)).join(', ');
      findings.push(
        `concurrency: ${running.size} at a time, sent ${ages} s before, allowed are ${limit} and ${extra} while replicas were alone`,
      );
    }
  }
  return { text: `concurrency: at most ${most} of ${limit}`, findings };
}

export function checkBudgets(
  { accounts, budgetNanoUsd }: { accounts: readonly string[]; budgetNanoUsd: number },
  rows: readonly LedgerRow[],
  facts: LimitFacts & { spentBetween(account: string): [number, number] },
): LimitReport {
  const findings: string[] = [];
  let most = 0;
  for (const account of accounts) {
    const spent = rows.filter((row) => row.account === account).reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0);
    most = Math.max(most, spent);
    if (spent <= budgetNanoUsd) continue;
    const [fromMs, toMs] = facts.spentBetween(account);
    const { restarts, alone } = lossesBetween(facts, fromMs, toMs);
    const extra = (budgetNanoUsd / facts.replicas) * (restarts + alone);
    if (spent > budgetNanoUsd + extra) findings.push(`${account}: spent ${spent} of ${budgetNanoUsd} nano-USD`);
  }
  return {
    text: `budgets: ${accounts.length} spent, at most ${((100 * most) / budgetNanoUsd).toFixed(1)} % of one`,
    findings,
  };
}
