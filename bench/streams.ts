/**
 * Measures what a chunk of a streamed chat costs on its way from an upstream to a client: processor time, the wait for the first event and
 * the largest gap between two, and the memory of an open stream. Every side has one core and takes its turn in each round. nginx and a pipe
 * of node:http pass bytes on and are the floors, of any program and of the runtime; Baobab and Bifrost read every chunk.
 *
 *   node bench/streams.ts [--quick] [--streams 60,200] [--open 1000,10000] [--rounds 5] [--seconds 4] [--before <checkout>]
 *
 * `--nginx <program>` (or the one on the PATH) and `--bifrost <program>` or BENCH_BIFROST name the others; without them they are left out.
 * docs/performance.md says how to get Bifrost. 10 000 streams need `ulimit -n` of 20 100 at least.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { SERVE_FLAGS } from '../bin/serve-flags.mjs';
import { createReport, median, printConditions, processorSeconds, residentMb, stolenMs } from './measure.ts';
import { startProgram } from './program.ts';
import { MODEL } from './replicas/chat.ts';
import { pinned, pinProcess, planCores } from './replicas/cores.ts';
import { findPeer, type Side, startBaobab, startBifrost, startNginx, toSide } from './replicas/sides.ts';
import type { ClientCommand, Marked, Opened } from './streams/client.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    streams: { type: 'string' },
    open: { type: 'string' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    nginx: { type: 'string', default: '/usr/sbin/nginx' },
    bifrost: { type: 'string', default: process.env.BENCH_BIFROST },
    before: { type: 'string' },
  },
});
const numbers = (text: string): number[] => text.split(',').filter(Boolean).map(Number);
const rounds = Number(values.rounds ?? (values.quick ? 2 : 5));
const seconds = Number(values.seconds ?? (values.quick ? 2 : 4));
const running = numbers(values.streams ?? (values.quick ? '60' : '60,200'));
const open = numbers(values.open ?? (values.quick ? '' : '1000,10000'));
/** Between two chunks of a stream, as an engine writes tokens. */
const CHUNK_MS = 20;
/** Those of open streams: few, so that memory is not that of work. */
const SLOW_CHUNK_MS = 5_000;
const START_MS = 1_000;
/** Each is as long as a measurement. */
const WARM_UP_TURNS = values.quick ? 2 : 5;
/** A stream begins within START_MS and lasts until some time after the measurement: a side may not bear that clients leave. */
const WORDS = Math.ceil((seconds * 1000 + 3 * START_MS) / CHUNK_MS);
const CLIENT_FLAGS = ['--min-semi-space-size=64', '--max-semi-space-size=64', '--no-memory-reducer'];
const UPSTREAM_FLAGS = ['--min-semi-space-size=16', '--no-memory-reducer'];

/** Opens and reads the streams. */
class Client implements Disposable {
  readonly #child: ChildProcess;

  constructor(cores: string) {
    this.#child = fork(join(import.meta.dirname, 'streams/client.ts'), { execArgv: CLIENT_FLAGS });
    if (this.#child.pid !== undefined) pinProcess(cores, this.#child.pid);
  }

  async ask<Result>(command: ClientCommand): Promise<Result> {
    const answered = once(this.#child, 'message') as Promise<[{ result: Result } | { problem: string }]>;
    this.#child.send(command);
    const [answer] = await answered;
    if ('problem' in answer) throw new Error(`streams failed: ${answer.problem}`);
    return answer.result;
  }

  openAt({ url, headers, streamBody: body }: Side, count: number): Promise<Opened> {
    return this.ask({ kind: 'open', url, headers, body, count, overMs: Math.max(START_MS, count) });
  }

  [Symbol.dispose](): void {
    this.#child.disconnect();
  }
}

interface Turn {
  chunkUs: number;
  firstMs: number;
  gapMs: number;
  /** Chunks that arrived for each one that was due. */
  kept: number;
  stolen: number;
}

printConditions('Streams');
const layout = planCores();
pinProcess(layout.load, process.pid);
await using resources = new AsyncDisposableStack();
const directory = resources.use(await mkdtempDisposable(join(tmpdir(), 'baobab-bench-')));
const startUpstream = async (intervalMs: number, words = 1_000_000) =>
  resources.use(
    await startProgram(
      pinned(layout.upstream, [process.execPath, ...UPSTREAM_FLAGS, join(import.meta.dirname, 'replicas/upstream.ts')]),
      { STREAM_WORDS: `${words}`, WORD_INTERVAL_MS: `${intervalMs}` },
    ),
  );
const client = resources.use(new Client(layout.load));
const report = createReport();
const BAOBAB = 'Baobab';
const PIPE = 'node:http';

async function startPipe(upstream: string): Promise<Side> {
  const command = [process.execPath, ...SERVE_FLAGS, join(import.meta.dirname, 'gateway/pipe.ts')];
  const program = await startProgram(pinned(layout.servers(1), command), { UPSTREAM: upstream });
  return toSide(PIPE, program, { health: '/healthz', model: MODEL });
}

async function startSides(upstream: string, stop: AsyncDisposableStack): Promise<Side[]> {
  const common = { directory: (await mkdtempDisposable(join(directory.path, 'sides-'))).path, upstream, layout };
  const sides: Side[] = [];
  const nginx = findPeer('nginx', values.nginx, '--nginx');
  if (nginx !== undefined) sides.push(stop.use(await startNginx(nginx, common)));
  sides.push(stop.use(await startPipe(upstream)));
  const bifrost = findPeer('Bifrost', values.bifrost, '--bifrost or BENCH_BIFROST');
  if (bifrost !== undefined) sides.push(stop.use(await startBifrost(bifrost, { ...common, name: 'Bifrost' })));
  const root = values.before;
  if (root !== undefined) sides.push(stop.use(await startBaobab({ ...common, name: 'before', root })));
  sides.push(stop.use(await startBaobab({ ...common, name: BAOBAB })));
  return sides;
}

/** The other sides do not run meanwhile. */
async function alone<Result>(side: Side, sides: readonly Side[], work: () => Promise<Result>): Promise<Result> {
  const others = sides.filter((other) => other !== side);
  for (const other of others) other.pause(true);
  try {
    return await work();
  } finally {
    for (const other of others) other.pause(false);
  }
}

async function measureTurn(side: Side, count: number): Promise<Turn> {
  const { firstEventMs } = await client.openAt(side, count);
  // The begin of a stream costs far more than a chunk.
  await sleep(START_MS / 2);
  await client.ask({ kind: 'mark' });
  const [processor, stolen, startedAt] = [processorSeconds(side.pids()), stolenMs(), performance.now()];
  await sleep(seconds * 1000);
  const elapsedMs = performance.now() - startedAt;
  const used = processorSeconds(side.pids()) - processor;
  const { events, largestGapMs } = await client.ask<Marked>({ kind: 'mark' });
  await client.ask({ kind: 'wait' });
  return {
    chunkUs: (used * 1e6) / events,
    firstMs: median(firstEventMs),
    gapMs: Math.max(...largestGapMs),
    kept: events / ((count * elapsedMs) / CHUNK_MS),
    stolen: (stolenMs() - stolen) / elapsedMs,
  };
}

async function measureChunks(): Promise<void> {
  const upstream = await startUpstream(CHUNK_MS, WORDS);
  await using stop = new AsyncDisposableStack();
  const sides = await startSides(upstream.address, stop);
  for (const side of sides) {
    for (let turn = 0; turn < WARM_UP_TURNS; turn += 1) await alone(side, sides, () => measureTurn(side, 100));
  }
  for (const count of running) {
    const turns = new Map<string, Turn[]>(sides.map(({ name }) => [name, []]));
    for (let round = 0; round < rounds; round += 1) {
      // The order alternates, so that no side always follows the same other one.
      for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
        turns.get(side.name)?.push(await alone(side, sides, () => measureTurn(side, count)));
      }
    }
    const of = (name: string, what: keyof Turn) => (turns.get(name) ?? []).map((turn) => turn[what]);
    console.log(`\n${count} streams with a chunk every ${CHUNK_MS} ms, medians of ${rounds} rounds`);
    console.table(
      Object.fromEntries(
        sides.map(({ name }) => [
          name,
          {
            'µs of a core a chunk': Number(median(of(name, 'chunkUs')).toFixed(1)),
            'each round': of(name, 'chunkUs')
              .map((us) => us.toFixed(1))
              .join(' '),
            'first event ms': Number(median(of(name, 'firstMs')).toFixed(1)),
            'largest gap ms': Number(median(of(name, 'gapMs')).toFixed(0)),
            'chunks in time': `${(median(of(name, 'kept')) * 100).toFixed(0)} %`,
            'host took': `${(Math.max(...of(name, 'stolen')) * 100).toFixed(0)} %`,
          },
        ]),
      ),
    );
    report.add({ name: `${count} streams: µs of a core a chunk`, value: median(of(BAOBAB, 'chunkUs')), atMost: 15 });
    for (const [peer, atMost] of [
      ['nginx', undefined],
      [PIPE, undefined],
      ['Bifrost', 0.25],
      ['before', 0.25],
    ] as const) {
      if (!turns.has(peer)) continue;
      const others = of(peer, 'chunkUs');
      const value = median(of(BAOBAB, 'chunkUs').map((us, round) => us / (others[round] ?? Number.NaN)));
      report.add({ name: `  / ${peer}`, value, ...(atMost !== undefined && { atMost }) });
    }
  }
}

/** A side that was just started for each number: memory that one measurement has left behind would hide that of the next. */
async function measureMemory(): Promise<void> {
  const upstream = await startUpstream(SLOW_CHUNK_MS);
  for (const count of open) {
    await using stop = new AsyncDisposableStack();
    for (const side of await startSides(upstream.address, stop)) {
      const resident = () => side.pids().reduce((sum, pid) => sum + residentMb(pid), 0);
      await client.openAt(side, 50);
      await client.ask({ kind: 'close' });
      const before = resident();
      await client.openAt(side, count);
      await sleep(SLOW_CHUNK_MS);
      const value = ((resident() - before) * 1024) / count;
      await client.ask({ kind: 'close' });
      report.add({ name: `${count} open streams, ${side.name}: each`, value, unit: ' KiB', digits: 1 });
    }
  }
}

if (running.length > 0) await measureChunks();
if (open.length > 0) await measureMemory();
report.print();
