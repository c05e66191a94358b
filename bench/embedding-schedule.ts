/**
 * Simulates how embedding requests are spread over many engine processes, in virtual time on any machine: the real chunks, placement and
 * micro-batches, but runs of the model that only take time. Prints how busy the processes are, which shows gaps between their batches.
 *
 *   node bench/embedding-schedule.ts [--processes 12] [--input-ms 13] [--seconds 8]
 */
import { parseArgs } from 'node:util';
import type { CallContext } from '../src/engines/engine.ts';
import { splitInputs } from '../src/engines/host/replicas/chunks.ts';
import { createPlacement } from '../src/engines/host/replicas/placement.ts';
import { type Batcher, createBatcher } from '../src/engines/onnx/batching/batcher.ts';
import { createReport, median } from './measure.ts';

const { values } = parseArgs({
  options: {
    processes: { type: 'string', default: '12' },
    'input-ms': { type: 'string', default: '13' },
    seconds: { type: 'string', default: '8' },
  },
});
const processes = Number(values.processes);
const endMs = Number(values.seconds) * 1000;

/** As measured with the multilingual model: of a run, of each input of 124 tokens in it, and their variation. */
const RUN_MS = 1;
const INPUT_MS = Number(values['input-ms']);
const VARIATION = 0.1;
const INPUT = { tokens: 124, characters: 620 };
/** On the server's one thread: of each request, of each input, and of each answer of a process. */
const SERVER_MS = { request: 0.4, input: 0.2, answer: 0.05 };
const CLIENT_MS = 0.5;
const BATCHES = { tokenBudget: 256, maxRows: 256, minFill: 0.85, runTokens: 20, maxPendingTokens: 1 << 24 };

/** Turns of the event loop in which everything that follows from one event happens. */
const TURNS = 3;

function createVirtualTime() {
  const events: { at: number; go(): void }[] = [];
  let now = 0;
  const settle = async () => {
    for (let turn = 0; turn < TURNS; turn += 1) await new Promise((go) => setImmediate(go));
  };
  return {
    now: () => now,
    pass: (ms: number) => new Promise<void>((go) => events.push({ at: now + ms, go })),
    async run(untilMs: number): Promise<void> {
      await settle();
      while (events.length > 0) {
        const next = events.reduce((first, event) => (event.at < first.at ? event : first));
        if (next.at > untilMs) return;
        events.splice(events.indexOf(next), 1);
        now = next.at;
        next.go();
        await settle();
      }
    },
  };
}

/** The same numbers in every run. */
function createDice(): () => number {
  let state = 7;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

interface Load {
  inputs: number;
  concurrency: number;
  /** Requests of one input beside them. */
  singles: number;
  /** One process takes so many times as long: it shares its core with the server and other programs. */
  slowest?: number;
}

async function simulate({ inputs, concurrency, singles, slowest = 1 }: Load) {
  const time = createVirtualTime();
  const dice = createDice();
  let busyMs = 0;
  let done = 0;
  let serverFreeAt = 0;

  async function run(rows: number, slowness: number) {
    const ms = (RUN_MS + rows * INPUT_MS) * slowness * (1 + VARIATION * (dice() * 2 - 1));
    busyMs += ms;
    await time.pass(ms);
    return { data: new Float32Array(rows), dims: [rows, 1] };
  }
  const placement = createPlacement<Batcher>();
  for (let process = 0; process < processes; process += 1) {
    const slowness = process === 0 ? slowest : 1;
    placement.add(createBatcher({ run: ({ sequences }) => run(sequences.length, slowness) }, BATCHES));
  }
  const onServer = (ms: number) => {
    serverFreeAt = Math.max(time.now(), serverFreeAt) + ms;
    return time.pass(serverFreeAt - time.now());
  };

  async function request(count: number): Promise<number> {
    const began = time.now();
    const { signal } = new AbortController();
    const context: CallContext = { requestId: '', accountId: '', keyId: '', priority: 'interactive', signal };
    await onServer((SERVER_MS.request + SERVER_MS.input * count) / 2);
    const texts = Array.from({ length: count }, () => 'x'.repeat(INPUT.characters));
    const cut = splitInputs(texts, processes);
    const isPart = cut.length > 1;
    const chunks = cut.map(async ({ start, end, weight }) => {
      const { process, release } = await placement.place(context, { weight, isPart });
      const sequences = Array.from({ length: end - start }, () => ({ ids: new Int32Array(INPUT.tokens) }));
      await process.submit({ sequences, signal, priority: 'interactive', onRow() {} });
      await onServer(SERVER_MS.answer);
      release();
    });
    await Promise.all(chunks);
    await onServer((SERVER_MS.request + SERVER_MS.input * count) / 2);
    done += count;
    return time.now() - began;
  }
  const client = async (count: number, startMs: number, latencies: number[]) => {
    await time.pass(startMs);
    while (true) {
      latencies.push(await request(count));
      await time.pass(CLIENT_MS);
    }
  };
  const large: number[] = [];
  const small: number[] = [];
  for (let at = 0; at < concurrency; at += 1) void client(inputs, at * 3, large);
  for (let at = 0; at < singles; at += 1) void client(1, at * 3, small);
  await time.run(endMs);
  return { busyShare: busyMs / endMs / processes, perSecond: (done / endMs) * 1000, large, small };
}

const report = createReport();
const LOADS: readonly Load[] = [
  { inputs: 64, concurrency: 2, singles: 0 },
  { inputs: 64, concurrency: 4, singles: 0 },
  { inputs: 64, concurrency: 16, singles: 0 },
  { inputs: 1, concurrency: 64, singles: 0 },
  { inputs: 64, concurrency: 4, singles: 32 },
  { inputs: 256, concurrency: 4, singles: 32 },
  { inputs: 64, concurrency: 4, singles: 0, slowest: 2 },
  { inputs: 64, concurrency: 16, singles: 0, slowest: 2 },
  { inputs: 1, concurrency: 64, singles: 0, slowest: 2 },
];
const latencyOf = (latencies: readonly number[]) => {
  const slow = latencies.toSorted((a, b) => a - b)[Math.floor(latencies.length * 0.99)] ?? 0;
  return `p50 ${median(latencies).toFixed(0)} and p99 ${slow.toFixed(0)} ms`;
};
for (const load of LOADS) {
  const { busyShare, perSecond, large, small } = await simulate(load);
  const beside = load.singles > 0 ? ` and 1 × ${load.singles}` : '';
  const name = `${load.inputs} input(s) × ${load.concurrency}${beside}${load.slowest ? ', one process slow' : ''}`;
  const singles = small.length > 0 ? `; of single inputs ${latencyOf(small)}` : '';
  console.log(`${name}: ${perSecond.toFixed(0)} inputs/s, ${latencyOf(large)}${singles}`);
  // Two requests cannot keep all processes busy while their answers are on the way.
  report.add({ name: `${name}, share of busy time`, value: busyShare, ...(load.concurrency > 2 && { atLeast: 0.98 }) });
}
report.print();
