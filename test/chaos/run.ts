/**
 * Three replicas behind haproxy over PostgreSQL, Redis and S3, with mixed load, while parts of it fail at random. At the end, what
 * clients received, the ledger, the usage report, the engine and the stored files must agree.
 *
 *   npm run chaos -- [--minutes 3] [--seed 1] [--faults kill,redis] [--load 1] [--keep]
 *
 * `--keep` keeps the logs of the servers and the list of requests also when all checks pass.
 */
import { parseArgs } from 'node:util';
import { describeFindings } from './checks/findings.ts';
import { clusterMissing } from './cluster/cluster.ts';
import { runExperiment } from './experiment.ts';
import { FAULTS, isFaultKind, missingFaults } from './faults.ts';

// Every process that it starts, and every mount, goes with it. Each listens once.
process.setMaxListeners(100);
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '3' },
    seed: { type: 'string' },
    faults: { type: 'string' },
    load: { type: 'string', default: '1' },
    keep: { type: 'boolean', default: false },
  },
});
const names = values.faults?.split(',') ?? FAULTS;
const unknown = names.filter((name) => !isFaultKind(name));
if (unknown.length > 0) throw new Error(`--faults: there is no ${unknown.join(', ')}, only ${FAULTS.join(', ')}`);

if (clusterMissing !== undefined) {
  console.error(`The chaos test cannot run: ${clusterMissing}`);
  process.exit(2);
}
const wanted = names.filter(isFaultKind);
const missing = new Map(missingFaults(wanted));
for (const [kind, reason] of missing) console.log(`${kind} is left out: ${reason}`);
const kinds = wanted.filter((kind) => !missing.has(kind));
if (kinds.length === 0) process.exit(2);
const { findings, summary } = await runExperiment({
  seed: Number(values.seed ?? Date.now() % 1_000_000),
  totalMs: Number(values.minutes) * 60_000,
  kinds,
  print: console.log,
  keepLogs: values.keep ? 'always' : 'on failure',
  load: Number(values.load),
});
for (const line of summary) console.log(line);
for (const line of describeFindings(findings)) console.log(line);
console.log(findings.length === 0 ? 'PASSED' : `FAILED: ${findings.length} findings`);
process.exit(findings.length === 0 ? 0 : 1);
