/**
 * Measures what a whole chat answer costs on its way from an upstream to a client, in processor time of all threads: with keys, limits, the
 * synced ledger, the list of requests and a log line, beside a pipe of node:http, the floor of the runtime. Every side has one core and takes
 * its turn in each round.
 *
 *   node bench/answers.ts [--quick] [--connections 16] [--rounds 45] [--before <checkout>]…
 */
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import autocannon from 'autocannon';
import { SERVE_FLAGS } from '../bin/serve-flags.mjs';
import { createReport, median, printConditions, processorSeconds } from './measure.ts';
import { startProgram } from './program.ts';
import { MODEL } from './replicas/chat.ts';
import { pinned, pinProcess, planCores } from './replicas/cores.ts';
import { type Side, startBaobab, toSide } from './replicas/sides.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    connections: { type: 'string', default: '16' },
    rounds: { type: 'string' },
    before: { type: 'string', multiple: true, default: [] },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 9 : 45));
/** Not by time: V8 compiles what has run often, and other programs may have the machine. Short, so that they disturb all sides alike. */
const REQUESTS = 1_000;
const WARM_UP_REQUESTS = values.quick ? 10_000 : 30_000;
const PIPE = 'node:http';
const BAOBAB = 'Baobab';

printConditions('Whole answers');
const layout = planCores();
pinProcess(layout.load, process.pid);
await using resources = new AsyncDisposableStack();
const directory = resources.use(await mkdtempDisposable(join(tmpdir(), 'baobab-bench-'))).path;
const program = (cores: string, file: string, env = {}) =>
  startProgram(pinned(cores, [process.execPath, ...SERVE_FLAGS, join(import.meta.dirname, file)]), env);
const { address: upstream } = resources.use(await program(layout.upstream, 'replicas/upstream.ts'));
const pipe = await program(layout.servers(1), 'gateway/pipe.ts', { UPSTREAM: upstream });
const sides: Side[] = [resources.use(toSide(PIPE, pipe, { health: '/healthz', model: MODEL }))];
const checkouts = [...values.before.map((root) => ({ name: `before: ${root}`, root })), { name: BAOBAB }];
for (const checkout of checkouts) {
  const env = { BAOBAB_LOG_LEVEL: 'info', BENCH_LOG: 'ignore' };
  sides.push(resources.use(await startBaobab({ ...checkout, directory, upstream, layout, env })));
}

/** Processor time of an answer in µs. The other sides do not run meanwhile. */
async function answerUs(side: Side, amount: number): Promise<number> {
  const others = sides.filter((other) => other !== side);
  for (const other of others) other.pause(true);
  const processor = processorSeconds(side.pids());
  const { url, headers, body } = side;
  const connections = Number(values.connections);
  const { requests, non2xx } = await autocannon({ url, method: 'POST', headers, body, connections, amount });
  if (non2xx > 0) throw new Error(`${side.name}: ${non2xx} requests failed`);
  const used = processorSeconds(side.pids()) - processor;
  for (const other of others) other.pause(false);
  return (used * 1e6) / requests.total;
}

for (const side of sides) await answerUs(side, WARM_UP_REQUESTS);
const measured = new Map<string, number[]>(sides.map(({ name }) => [name, []]));
for (let round = 0; round < rounds; round += 1) {
  // In another order each time.
  for (const side of [...sides.slice(round % sides.length), ...sides.slice(0, round % sides.length)])
    measured.get(side.name)?.push(await answerUs(side, REQUESTS));
}
const of = (name: string): number[] => measured.get(name) ?? [];
for (const { name } of sides)
  console.log(`${name}: ${of(name).map(Math.round).join(', ')} µs; median ${median(of(name)).toFixed(1)}`);
const report = createReport();
const ratioTo = (name: string) => median(of(BAOBAB).map((each, round) => each / (of(name)[round] ?? Number.NaN)));
report.add({ name: 'processor time of a whole answer / pipe of node:http', value: ratioTo(PIPE), atMost: 2 });
for (const { name } of sides.slice(1, -1)) report.add({ name: `  / ${name}`, value: ratioTo(name), digits: 3 });
report.print();
