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
import { FAULTS, type FaultKind } from './faults.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '3' },
    seed: { type: 'string' },
    faults: { type: 'string' },
    load: { type: 'string', default: '1' },
    keep: { type: 'boolean', default: false },
  },
});
const isFault = (name: string): name is FaultKind => FAULTS.some((fault) => fault === name);
const kinds = values.faults?.split(',').filter(isFault) ?? FAULTS;

if (clusterMissing !== undefined) {
  console.error(`The chaos test cannot run: ${clusterMissing}`);
  process.exit(2);
}
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
