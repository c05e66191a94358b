import type { EngineCall } from '../cluster/engine.ts';
import type { TimelineEvent } from '../timeline.ts';
import type { LedgerRow } from './ledger.ts';

export interface LimitReport {
  /** What was seen at most and what is allowed, in words. */
  text: string;
  findings: string[];
}

export interface LimitFacts {
  replicas: number;
  events: readonly TimelineEvent[];
}

/** Some seconds after a cut, the replica is still alone. */
const AFTERMATH_MS = 5_000;

/**
 * What docs/scaling.md allows on top while Redis is away: a replica that lost it alone enforces its share beside what the others use
 * together, and levels go on from those that each replica saw last. How often that happened between two moments, and for how long.
 */
function alone({ events }: LimitFacts, fromMs: number, toMs: number): { times: number; minutes: number } {
  const during = (wanted: string) =>
    events
      .filter(({ kind }) => kind === wanted)
      .map(({ startMs, endMs = toMs }) => Math.min(toMs, endMs + AFTERMATH_MS) - Math.max(fromMs, startMs))
      .filter((ms) => ms > 0);
  const cuts = during('cut-redis');
  return { times: cuts.length + during('redis').length, minutes: cuts.reduce((sum, ms) => sum + ms, 0) / 60_000 };
}

/**
 * A bucket holds one minute of its limit. A request is admitted after its client has sent it and before the engine gets it, so of the
 * requests sent after a moment, the engine gets no more until another one than a full bucket and what flowed in since.
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
      const { times, minutes } = alone(facts, fromMs - AFTERMATH_MS, call.startMs);
      const extra = (limit / facts.replicas) * (times + minutes);
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

export function checkConcurrency(limit: number, calls: readonly EngineCall[], facts: LimitFacts): LimitReport {
  const steps = calls
    .flatMap(({ startMs, endMs = Number.POSITIVE_INFINITY }) => [
      { atMs: startMs, change: 1 },
      { atMs: endMs, change: -1 },
    ])
    .toSorted((left, right) => left.atMs - right.atMs || left.change - right.change);
  const findings: string[] = [];
  let running = 0;
  let most = 0;
  for (const { atMs, change } of steps) {
    running += change;
    most = Math.max(most, running);
    if (change < 0 || running <= limit || findings.length > 0) continue;
    const share = Math.max(1, Math.floor(limit / facts.replicas));
    const extra = share * Math.min(facts.replicas - 1, alone(facts, atMs - 1, atMs).times);
    if (running > limit + extra)
      findings.push(`concurrency: ${running} at a time, allowed are ${limit} and ${extra} while replicas were alone`);
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
    const extra = (budgetNanoUsd / facts.replicas) * alone(facts, fromMs - AFTERMATH_MS, toMs).times;
    if (spent > budgetNanoUsd + extra) findings.push(`${account}: spent ${spent} of ${budgetNanoUsd} nano-USD`);
  }
  return {
    text: `budgets: ${accounts.length} spent, at most ${((100 * most) / budgetNanoUsd).toFixed(1)} % of one`,
    findings,
  };
}
