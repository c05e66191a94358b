/**
 * Replaces three replicas behind haproxy, one after another, under load. No request may fail.
 *
 *   npm run rolling-upgrade -- [--rounds 2] [--from <commit>]
 *
 * With `--from`, the replicas run the code of that commit first. It uses the installed packages.
 */
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { checkAccount, checkUsage, readLedger } from './checks/ledger.ts';
import { batchProgress, checkBatches } from './checks/stored.ts';
import { type Cluster, clusterMissing, startCluster } from './cluster/cluster.ts';
import { openAccount } from './load/accounts.ts';
import { createAttempts } from './load/attempts.ts';
import { batchLane } from './load/batch-lane.ts';
import { createCaller } from './load/caller.ts';
import { fileLanes } from './load/file-lanes.ts';
import { inferenceLanes } from './load/inference-lanes.ts';
import { createRandom } from './random.ts';

interface RollingUpgradeOptions {
  /** The code that runs first; this repository by default. */
  from?: string | undefined;
  /** How often all replicas are replaced. */
  rounds: number;
  print: (line: string) => void;
}

interface RollingUpgradeResult {
  findings: string[];
  summary: string;
}

/** Longer than the load balancer takes to see that a replica is not ready, see cluster/balancer.ts. */
const DRAIN_DELAY_MS = 8_000;
/** Streams take up to 24 words. */
const WORD_MS = 50;
/** Until the load balancer uses a new replica. */
const SEEN_READY_MS = 2_500;

/** Replaces one replica after another while clients send requests and batches. None may fail, and all are billed exactly. */
async function runRollingUpgrade(options: RollingUpgradeOptions): Promise<RollingUpgradeResult> {
  const env = { BAOBAB_HTTP_DRAIN_DELAY_MS: `${DRAIN_DELAY_MS}` };
  const cluster = await startCluster({ replicas: 3, withNamespaces: false, wordMs: WORD_MS, root: options.from, env });
  try {
    return await upgrade(cluster, options);
  } finally {
    await cluster.stop();
  }
}

async function upgrade(cluster: Cluster, { rounds, print }: RollingUpgradeOptions): Promise<RollingUpgradeResult> {
  const { address } = cluster.balancer;
  const random = createRandom(1);
  const open = (name: string) => openAccount(address, name);
  const [plain, stored, batched] = [await open('plain'), await open('files'), await open('batches')];
  // Replicas learn of new keys within a second.
  await sleep(1_500);
  const attempts = createAttempts();
  const caller = createCaller({ address, attempts });
  const inference = inferenceLanes(caller, random);
  const files = fileLanes(caller, random);
  let isStopped = false;
  const { batches, batch } = batchLane(caller, { random, isOver: () => isStopped });
  const lanes = [
    ...Array.from({ length: 4 }, () => () => inference.stream(plain)),
    ...Array.from({ length: 2 }, () => () => inference.chat(plain)),
    ...Array.from({ length: 2 }, () => () => inference.embedding(plain)),
    () => files.upload(stored),
    () => files.download(stored),
    () => batch(batched),
    () => batch(batched),
  ];
  const clients = lanes.map(async (work) => {
    while (!isStopped) {
      await work();
      await sleep(random.between(0, 50));
    }
  });

  for (let round = 0; round < rounds; round += 1) {
    for (const replica of cluster.replicas) {
      const stopMs = await replica.stop();
      await replica.start();
      print(
        `${replica.name} is replaced, it took ${(stopMs / 1000).toFixed(1)} s to stop, ${attempts.all.length} requests so far`,
      );
      await sleep(SEEN_READY_MS);
    }
  }
  isStopped = true;
  await Promise.all(clients);
  while (!(await batchProgress(address, batched, batches)).isOver) await sleep(500);

  const rows = await readLedger(cluster.database.url);
  const failed = attempts.all.filter(({ outcome }) => outcome !== 'acknowledged');
  const findings = [
    ...failed.map(({ kind, reason, requestId }) => `${kind} failed with ${reason} ${requestId}`),
    ...files.problems,
    ...checkAccount(plain.name, { rows, attempts, calls: cluster.engine.calls }),
    ...(await checkUsage(address, [plain, batched], rows)),
    ...(await checkBatches(address, { account: batched, batches, rows })),
  ];
  const summary = `${attempts.all.length} requests and ${batches.length} batches while ${3 * rounds} replicas were replaced, ${failed.length} failed`;
  return { findings, summary };
}

const ROOT = join(import.meta.dirname, '../..');
const { values } = parseArgs({ options: { rounds: { type: 'string', default: '2' }, from: { type: 'string' } } });

if (clusterMissing !== undefined) {
  console.error(`The rolling upgrade cannot run: ${clusterMissing}`);
  process.exit(2);
}

function git(...args: string[]): void {
  const { status, stderr } = spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' });
  if (status !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`);
}

/** A checkout of the commit. */
async function checkOut(commit: string): Promise<string> {
  const directory = join(await mkdtemp(join(tmpdir(), 'baobab-earlier-')), 'code');
  git('worktree', 'add', '--detach', directory, commit);
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  return directory;
}

const earlier = values.from === undefined ? undefined : await checkOut(values.from);
try {
  const { findings, summary } = await runRollingUpgrade({
    from: earlier,
    rounds: Number(values.rounds),
    print: console.log,
  });
  for (const finding of findings.slice(0, 40)) console.log(`FINDING ${finding}`);
  console.log(`${findings.length === 0 ? 'PASSED' : 'FAILED'}: ${summary}`);
  process.exitCode = findings.length === 0 ? 0 : 1;
} finally {
  if (earlier !== undefined) {
    await rm(join(earlier, 'node_modules'));
    git('worktree', 'remove', '--force', earlier);
  }
}
process.exit();
