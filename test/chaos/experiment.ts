import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lossesBetween, readAlonePeriods } from './checks/alone.ts';
import { checkBackground, checkRepeats } from './checks/jobs.ts';
import { checkAccount, checkUsage, readLedger, sumOf } from './checks/ledger.ts';
import { checkBudgets, checkConcurrency, checkRate } from './checks/limits.ts';
import { whileProgressing } from './checks/progress.ts';
import { batchProgress, checkBatches, checkFiles, checkInputs, checkKeys } from './checks/stored.ts';
import { type Cluster, startCluster } from './cluster/cluster.ts';
import { hasNamespaces } from './cluster/network.ts';
import { createFaults, extrasOf, type FaultKind, mayFail, planFaults } from './faults.ts';
import { LIMITS } from './load/accounts.ts';
import type { Attempt } from './load/attempts.ts';
import { startLoad } from './load/load.ts';
import { createRandom } from './random.ts';
import { createTimeline, type Timeline, type TimelineEvent } from './timeline.ts';

export interface ExperimentOptions {
  seed: number;
  totalMs: number;
  kinds: readonly FaultKind[];
  print: (line: string) => void;
  /** Logs of the replicas and the list of requests. Never by default. */
  keepLogs?: 'always' | 'on failure';
  /** How many times as many clients as usual. */
  load?: number;
  /** Leaves out limits, unexplained failures and deadlines: on a machine that is too slow, replicas take parts for lost that are not. */
  anyMachine?: boolean;
}

export interface ExperimentResult {
  findings: string[];
  summary: string[];
}

const REPLICAS = 3;
/** An engine that takes longer would hide what runs at the same time. */
const WORD_MS = 15;
const QUIET_TIMEOUT_MS = 180_000;
/** Lines may take as long as the machine needs. A server that has died holds its lines for 15 s, one whose results were refused for 5 s. */
const BATCH_LIMITS = { everyMs: 1_000, stallMs: 60_000, totalMs: 1_200_000 };
const NO_LIMITS = { ...BATCH_LIMITS, stallMs: Number.POSITIVE_INFINITY, totalMs: Number.POSITIVE_INFINITY };
/** Leases end 15 s after their owner. */
const LEASE_MS = 16_000;

export async function runExperiment(options: ExperimentOptions): Promise<ExperimentResult> {
  const withNamespaces = hasNamespaces();
  const { print } = options;
  print(
    `seed ${options.seed}, ${options.totalMs / 1000} s, cuts by ${withNamespaces ? 'network namespaces' : 'proxies'}`,
  );
  const extras = extrasOf(options.kinds);
  const cluster = await startCluster({ replicas: REPLICAS, withNamespaces, wordMs: WORD_MS, extras });
  let isFine = false;
  try {
    const result = await experimentOn(cluster, options);
    isFine = result.findings.length === 0;
    return result;
  } finally {
    const keepLogs = options.keepLogs === 'always' || (options.keepLogs === 'on failure' && !isFine);
    if (keepLogs) print(`logs: ${cluster.directory}`);
    await cluster.stop({ keepLogs });
  }
}

async function experimentOn(cluster: Cluster, options: ExperimentOptions): Promise<ExperimentResult> {
  const { seed, totalMs, kinds, print, load: factor = 1 } = options;
  const timeline = createTimeline(print);
  const inject = createFaults({ cluster, timeline });
  const { address } = cluster.balancer;
  const load = await startLoad({ address, moments: cluster.moments, random: createRandom(seed + 1), factor });
  timeline.note('load runs');

  const running: Promise<void>[] = [];
  for (const fault of planFaults(createRandom(seed), { totalMs, kinds, replicas: REPLICAS })) {
    running.push(inject(fault));
    await sleep(fault.thenMs);
  }
  await Promise.all(running);
  timeline.note('all faults are over');
  const findings: string[] = [];
  const until = async (what: string, isTrue: () => Promise<boolean>) => {
    const deadline = performance.now() + (options.anyMachine === true ? Number.POSITIVE_INFINITY : QUIET_TIMEOUT_MS);
    while (!(await isTrue().catch(() => false))) {
      if (performance.now() > deadline) {
        findings.push(`${what} not within ${QUIET_TIMEOUT_MS / 1000} s`);
        return;
      }
      await sleep(500);
    }
    timeline.note(what);
  };
  await until('all replicas are well', async () =>
    (await Promise.all(cluster.replicas.map((replica) => replica.isWell()))).every(Boolean),
  );
  const quiet = load.stop();
  await until('all clients have ended', async () => {
    await (options.anyMachine === true ? quiet : Promise.race([quiet, sleep(QUIET_TIMEOUT_MS)]));
    return true;
  });
  const {
    problem,
    seconds,
    longestPauseSeconds: pause,
  } = await whileProgressing(
    () => batchProgress(address, load.accounts.batches, load.batches),
    options.anyMachine === true ? NO_LIMITS : BATCH_LIMITS,
  );
  if (problem !== undefined) findings.push(`batches have not ended: ${problem}`);
  else
    timeline.note(
      `all batches have ended, after ${seconds.toFixed(0)} s, ${pause.toFixed(1)} s of them at most without a result`,
    );
  await sleep(LEASE_MS);
  findings.push(...(await load.useAllPlaces()));

  const { attempts, accounts } = load;
  const rows = await readLedger(cluster.database.url);
  const { calls } = cluster.engine;
  const everyone = [...Object.values(accounts), ...load.budgetAccounts];
  const others = [accounts.repeated, accounts.batches, accounts.files, accounts.background];
  const exact = everyone.filter((account) => !others.includes(account));
  for (const { name } of exact) findings.push(...checkAccount(name, { rows, attempts, calls }));
  findings.push(...(await checkUsage(address, everyone, rows)));

  const periods = await readAlonePeriods(
    cluster.directory,
    cluster.replicas.map(({ name }) => name),
  );
  const hasSentinel = cluster.counters.sentinel !== undefined;
  const facts = { replicas: REPLICAS, events: timeline.events, periods, hasSentinel };
  const losses = lossesBetween(facts, 0, performance.now());
  const callsOf = ({ name }: { name: string }) => calls.filter(({ account }) => account === name);
  const spentBetween = (name: string): [number, number] => {
    const own = attempts.of(name);
    return [own[0]?.startMs ?? 0, own.at(-1)?.endMs ?? 0];
  };
  const limits = [
    checkRate({ name: 'requests', limit: LIMITS.rpm, amountOf: () => 1 }, callsOf(accounts.rpm), facts),
    checkRate(
      { name: 'tokens', limit: LIMITS.tpm, amountOf: (call) => call.promptTokens },
      callsOf(accounts.tpm),
      facts,
    ),
    checkConcurrency(LIMITS.concurrency, callsOf(accounts.concurrency), facts),
    checkBudgets(
      { accounts: load.budgetAccounts.map(({ name }) => name), budgetNanoUsd: Math.round(LIMITS.budgetUsd * 1e9) },
      rows,
      { ...facts, spentBetween },
    ),
  ];
  if (options.anyMachine !== true) findings.push(...limits.flatMap((limit) => limit.findings));
  findings.push(...load.problems, ...(await checkFiles(address, accounts.files, load.files)));
  findings.push(...(await checkInputs(address, accounts.batches, load.inputs)));
  findings.push(...(await checkBatches(address, { account: accounts.batches, batches: load.batches, rows })));
  const { batches, responses, keys } = load;
  const cancelled = countCancelled(attempts.of(accounts.repeated.name), timeline);
  findings.push(
    ...(await checkBackground(address, {
      account: accounts.background,
      responses: load.responses,
      rows,
      mayFail: timeline.events.some(({ kind }) => kind === 'reset-engine'),
    })),
  );
  findings.push(...checkKeys(accounts.repeated, { keys: load.keys, rows, cancelled }));
  const failures = checkFailures(attempts.all, timeline);
  if (options.anyMachine !== true) findings.push(...failures.findings);

  if (options.anyMachine !== true) findings.push(...checkRepeats(calls, timeline));
  await writeFile(
    join(cluster.directory, 'clients.json'),
    JSON.stringify({ ...facts, attempts: attempts.all, batches, responses, keys, cancelled }),
  );
  const books = auditBooks(cluster);
  findings.push(...books.findings);
  const acknowledged = attempts.all.filter(({ outcome }) => outcome === 'acknowledged');
  const failed = attempts.all.filter(({ outcome }) => outcome === 'failed');
  const slowest = attempts.all.reduce((ms, { startMs, endMs }) => Math.max(ms, endMs - startMs), 0);
  const [sent, billed] = [sumOf(calls), sumOf(rows)];
  return {
    findings,
    summary: [
      describeFaults(timeline.events),
      `${attempts.all.length} requests: ${acknowledged.length} acknowledged, ${failed.length} failed, slowest ${(slowest / 1000).toFixed(1)} s`,
      `billed ${billed.requests} requests, ${billed.promptTokens} + ${billed.completionTokens} tokens; the engine did ${sent.requests}, ${sent.promptTokens} + ${sent.completionTokens}`,
      ...limits.map(({ text }) => text),
      `Redis was stopped ${losses.restarts} times; replicas were without it on their own ${losses.alone} times, ${timeline.events.filter(({ kind }) => kind === 'cut-redis').length} of them were cut off`,
      `files: ${load.files.length} sent, ${load.files.filter(({ id }) => id !== undefined).length} acknowledged`,
      `batches: ${load.batches.length} with ${load.batches.reduce((sum, { lines }) => sum + lines, 0)} lines, which ran ${callsOf(accounts.batches).length} times`,
      `background responses: ${load.responses.length}, which ran ${callsOf(accounts.background).length} times`,
      `idempotency keys: ${load.keys.length}, ${load.keys.reduce((sum, { answers }) => sum + answers, 0)} answers`,
      books.text,
      ...failures.lines.map((line) => `  ${line}`),
      ...describeRecovery(attempts.all, timeline.events),
    ],
  };
}

/** For the servers, the clients of a load balancer that ends have cancelled what they asked for. */
const countCancelled = (attempts: readonly Attempt[], timeline: Timeline): number =>
  attempts.filter(
    ({ outcome, reason, startMs, endMs }) =>
      outcome === 'failed' && !/^\d/.test(reason) && timeline.kindsBefore(endMs, endMs - startMs).has('reset-clients'),
  ).length;

/** By a program of its own. */
function auditBooks({ database, directory }: Cluster): { text: string; findings: string[] } {
  const program = join(import.meta.dirname, 'books.ts');
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, database.url, directory], {
    encoding: 'utf8',
    maxBuffer: 100_000_000,
  });
  const [text = '', ...findings] = stdout.split('\n').filter(Boolean);
  if (status !== 0 && findings.length === 0) findings.push(`ended with ${status}: ${stderr}`);
  return { text, findings: findings.map((finding) => `books: ${finding}`) };
}

/** Clients of other requests may see errors for this long after a fault is over. */
const GRACE_MS = 12_000;
const SLOWEST_MS = 60_000;

const FILE_KINDS = ['upload', 'download', 'delete', 'batch file', 'batch'];
/** Refusals that are part of the load. */
const EXPECTED = ['429 rpm_exceeded', '429 tpm_exceeded', '429 concurrency_exceeded', '429 budget_exceeded'];
/** No key can be recorded on a full disk. */
const FULL_REASON = '429 capacity_exceeded';

interface FailureReport {
  lines: string[];
  findings: string[];
}

/** Counts failures by reason. Those that no fault explains, unexpected refusals and requests that hang are findings. */
function checkFailures(attempts: readonly Attempt[], timeline: Timeline): FailureReport {
  const findings: string[] = [];
  const counts = new Map<string, number>();
  for (const { kind, account, outcome, reason, startMs, endMs, requestId } of attempts) {
    if (endMs - startMs > SLOWEST_MS)
      findings.push(`${kind} of ${account} took ${((endMs - startMs) / 1000).toFixed(0)} s: ${reason} ${requestId}`);
    if (outcome === 'acknowledged' || EXPECTED.includes(reason)) continue;
    counts.set(`${kind}: ${reason}`, (counts.get(`${kind}: ${reason}`) ?? 0) + 1);
    const active = timeline.kindsBefore(endMs, GRACE_MS + (endMs - startMs));
    if (reason === FULL_REASON && active.has('postgres-full')) continue;
    if (outcome === 'refused') findings.push(`${kind} of ${account} was refused with ${reason} ${requestId}`);
    else if (reason.startsWith('500')) findings.push(`${kind} of ${account} failed with ${reason} ${requestId}`);
    else if (!mayFail(active, FILE_KINDS.includes(kind)))
      findings.push(
        `${kind} of ${account} failed with ${reason} ${requestId}, and only ${[...active].join(', ') || 'nothing'} was wrong`,
      );
  }
  const lines = [...counts]
    .toSorted(([, left], [, right]) => right - left)
    .map(([reason, count]) => `${count} × ${reason}`);
  return { lines, findings };
}

function describeFaults(events: readonly TimelineEvent[]): string {
  const counts = [...Map.groupBy(events, ({ kind }) => kind)].map(([kind, all]) => `${kind} ${all.length}`);
  return `${events.length} faults: ${counts.toSorted().join(', ')}`;
}

const seconds = (ms: number): string => (ms / 1000).toFixed(1);
/** A fault belongs to no other one that was over for this long before it, or begins this long after it. */
const APART_MS = 2_000;

/** For each fault that was the only one: how many requests failed, for how long from its start, and how long the slowest one took. */
function describeRecovery(attempts: readonly Attempt[], events: readonly TimelineEvent[]): string[] {
  return events.flatMap((event) => {
    const { kind, startMs, endMs = startMs } = event;
    const others = events.filter((other) => other !== event);
    const nextMs = Math.min(...others.map((other) => other.startMs).filter((ms) => ms >= startMs));
    const previousMs = Math.max(...others.filter((other) => other.startMs < startMs).map((other) => other.endMs ?? 0));
    if (nextMs < endMs + APART_MS || previousMs > startMs - APART_MS) return [];
    const during = attempts.filter((attempt) => attempt.endMs >= startMs && attempt.startMs < Math.min(nextMs, endMs));
    const failed = during.filter(({ outcome }) => outcome === 'failed');
    const lastMs = Math.max(startMs, ...failed.map((attempt) => attempt.endMs));
    const slowest = during.toSorted((left, right) => right.endMs - right.startMs - (left.endMs - left.startMs))[0];
    const failures =
      failed.length === 0
        ? 'no request failed'
        : `${failed.length} of ${during.length} failed, the last after ${seconds(lastMs - startMs)} s`;
    const slow = slowest === undefined ? '' : `, slowest ${slowest.kind} ${seconds(slowest.endMs - slowest.startMs)} s`;
    return [`${kind} for ${seconds(endMs - startMs)} s: ${failures}${slow}`];
  });
}
