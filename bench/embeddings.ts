/**
 * Compares POST /v1/embeddings with onnxruntime and with a plain transformers.js server: the same weights, texts and machine,
 * alternating, medians over the rounds. Also measures latency, tokenization, serialisation and memory.
 *
 *   node bench/embeddings.ts [--quick] [--rounds 5] [--seconds 6]
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtempDisposable, symlink } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Pool } from 'undici';
import type { CallContext } from '../packages/core/src/engine/engine.ts';
import type { OnnxOptions } from '../packages/engines/src/onnx/driver.ts';
import { load } from '../packages/engines/src/onnx/load.ts';
import { loadTokenizer } from '../packages/engines/src/onnx/tokenizer/tokenizer.ts';
import { writeEmbeddings } from '../packages/server/src/http/endpoints/embeddings/endpoint.ts';
import { startServer } from '../test/acceptance/start-server.ts';
import { weights } from '../test/models/weights.ts';
import type { ClientOrder, ClientResult } from './embeddings/clients.ts';
import type { RawOrder, RawResult, RawSetup } from './embeddings/raw-runtime.ts';
import { longestBlocks } from './embeddings/reading.ts';
import { passages } from './embeddings/texts.ts';
import { childrenOf, createReport, median, printConditions, processorSeconds, residentMb } from './measure.ts';
import { startProgram } from './program.ts';
import { openConnection, postBytes } from './raw-http.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 2 : 5));
const seconds = Number(values.seconds ?? (values.quick ? 3 : 6));
const MODEL = 'sentence-transformers/all-minilm-l6-v2';
const CORES = availableParallelism();
/** The ways to use all cores. */
const LAYOUTS = [...new Set([1, 2, 4, CORES])]
  .filter((threads) => threads <= CORES)
  .map((threads) => ({ processes: Math.floor(CORES / threads), threads }));
const BUDGETS = [128, 256, 512, 1024] as const;
const report = createReport();

const spec = await weights<OnnxOptions>(MODEL);
const { directory } = spec;
const { model: modelFile, tokenizer: tokenizerFile } = spec.engine.options;
const tokenizer = await loadTokenizer(join(directory, tokenizerFile));
const encode = (text: string) => tokenizer.encode(text, tokenizer.template.single);
const texts = passages(2048);
const tokenCounts = texts.map((text) => encode(text).length);

printConditions(`Embeddings, ${MODEL}`);
console.log(
  `${texts.length} passages of ${Math.min(...tokenCounts)} to ${Math.max(...tokenCounts)} tokens; ` +
    `${rounds} rounds of ${seconds} s\n`,
);

// --- the three servers ---

interface Done {
  tokens: number;
  /** Tokens per second. */
  rate: number;
}

async function startRawRuntime({ processes, threads }: (typeof LAYOUTS)[number]) {
  const children = await Promise.all(
    Array.from({ length: processes }, async (_, process) => {
      const child = fork(join(import.meta.dirname, 'embeddings/raw-runtime.ts'));
      const sequences = texts.filter((_, index) => index % processes === process).map((text) => [...encode(text)]);
      child.send({ model: join(directory, modelFile), threads, sequences } satisfies RawSetup);
      await once(child, 'message');
      return child;
    }),
  );
  return {
    pids: children.map(({ pid }) => pid ?? 0),
    /** Sum of all processes. */
    async run(order: RawOrder): Promise<Done> {
      const results = await Promise.all(
        children.map(async (child) => {
          child.send(order);
          const [result] = (await once(child, 'message')) as [RawResult];
          return result;
        }),
      );
      return {
        tokens: results.reduce((sum, { tokens }) => sum + tokens, 0),
        rate: results.reduce((sum, { tokens, seconds }) => sum + tokens / seconds, 0),
      };
    },
    [Symbol.dispose]() {
      for (const child of children) child.kill();
    },
  };
}

async function startTransformers(links: string) {
  for (const [name, file] of Object.entries({
    'onnx/model_quantized.onnx': modelFile,
    'tokenizer.json': tokenizerFile,
    'tokenizer_config.json': 'tokenizer_config.json',
    'config.json': 'config.json',
  })) {
    const path = join(links, 'bench', name);
    await mkdir(dirname(path), { recursive: true });
    await symlink(join(directory, file), path);
  }
  return startProgram([process.execPath, join(import.meta.dirname, 'embeddings/transformers-server.ts')], {
    MODELS: links,
    NAME: 'bench',
  });
}

const clients = fork(join(import.meta.dirname, 'embeddings/clients.ts'));
await once(clients, 'message');

/** Sends concurrent requests of a given size until the time is up, and waits for the last answer. */
async function overHttp(
  address: string,
  shape: { inputs: number; concurrency: number; apiKey?: string },
): Promise<Done> {
  const requests = Array.from({ length: Math.floor(texts.length / shape.inputs) }, (_, index) => {
    const from = index * shape.inputs;
    const input = texts.slice(from, from + shape.inputs);
    return {
      body: JSON.stringify({ model: MODEL, input: shape.inputs === 1 ? input[0] : input, encoding_format: 'base64' }),
      tokens: tokenCounts.slice(from, from + shape.inputs).reduce((sum, tokens) => sum + tokens, 0),
    };
  });
  clients.send({ address, requests, seconds, ...shape } satisfies ClientOrder);
  const [result] = (await once(clients, 'message')) as [ClientResult];
  if ('error' in result) throw new Error(result.error);
  return { tokens: result.tokens, rate: result.tokens / result.seconds };
}

const SHAPES = { large: { inputs: 256, concurrency: 4 }, single: { inputs: 1, concurrency: 64 } } as const;

await using links = await mkdtempDisposable(join(tmpdir(), 'bench-'));
await using server = await startServer({
  env: {
    BAOBAB_LOG_LEVEL: 'warn',
    BAOBAB_LIMITS_EMBEDDING_RPM: '100000000',
    BAOBAB_LIMITS_EMBEDDING_TPM: '1000000000000',
    BAOBAB_MODELS_IDLE_UNLOAD_SECONDS: '0',
  },
});
const { apiKey } = server;
const baobab = new Pool(server.address, { connections: 64 });

/** Measures every layout and batch shape briefly. */
async function bestOfRawRuntime() {
  const trials: { layout: (typeof LAYOUTS)[number]; tokenBudget: number; rate: number }[] = [];
  for (const layout of LAYOUTS) {
    using raw = await startRawRuntime(layout);
    for (const tokenBudget of BUDGETS) {
      await raw.run({ seconds: 0.3, tokenBudget });
      const { rate } = await raw.run({ seconds: 1.5, tokenBudget });
      trials.push({ layout, tokenBudget, rate });
    }
  }
  console.log('raw runtime, tokens/s');
  console.table(
    Object.fromEntries(
      LAYOUTS.map((layout) => [
        `${layout.processes} x ${layout.threads} threads`,
        Object.fromEntries(
          trials
            .filter((trial) => trial.layout === layout)
            .map(({ tokenBudget, rate }) => [`${tokenBudget} tokens per run`, Math.round(rate)]),
        ),
      ]),
    ),
  );
  return trials.reduce((best, trial) => (trial.rate > best.rate ? trial : best));
}

async function throughput(): Promise<void> {
  const { layout, tokenBudget } = await bestOfRawRuntime();
  using raw = await startRawRuntime(layout);
  await raw.run({ seconds: 0.5, tokenBudget });
  await using plain = await startTransformers(links.path);
  await overHttp(server.address, { ...SHAPES.single, apiKey });
  const own = [server.process.pid ?? 0, ...childrenOf(server.process.pid ?? 0)];
  const theirs = [plain.process.pid ?? 0];
  const sides = {
    raw: { pids: raw.pids, run: () => raw.run({ seconds, tokenBudget }) },
    large: { pids: own, run: () => overHttp(server.address, { ...SHAPES.large, apiKey }) },
    single: { pids: own, run: () => overHttp(server.address, { ...SHAPES.single, apiKey }) },
    plainLarge: { pids: theirs, run: () => overHttp(plain.address, SHAPES.large) },
    plainSingle: { pids: theirs, run: () => overHttp(plain.address, SHAPES.single) },
  };
  type Side = keyof typeof sides;
  const rates = new Map<string, { wall: number; processor: number }[]>(Object.keys(sides).map((side) => [side, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const [side, { pids, run }] of Object.entries(sides)) {
      const processor = processorSeconds(pids);
      const { tokens, rate } = await run();
      rates.get(side)?.push({ wall: rate, processor: tokens / (processorSeconds(pids) - processor) });
    }
  }
  const ratio = (of: Side, to: Side, clock: 'wall' | 'processor') =>
    median((rates.get(of) ?? []).map((rate, round) => rate[clock] / (rates.get(to)?.[round]?.[clock] ?? Number.NaN)));
  console.log(`medians; raw: ${layout.processes} x ${layout.threads} threads, ${tokenBudget} tokens per run`);
  console.table(
    Object.fromEntries(
      [...rates].map(([side, found]) => [
        side,
        {
          'tokens/s': Math.round(median(found.map(({ wall }) => wall))),
          'tokens per processor second': Math.round(median(found.map(({ processor }) => processor))),
        },
      ]),
    ),
  );
  const compared: [string, Side, Side, number][] = [
    ['256 inputs per request / raw runtime', 'large', 'raw', 0.9],
    ['64 concurrent single inputs / raw runtime', 'single', 'raw', 0.8],
    ['256 inputs per request / transformers.js', 'large', 'plainLarge', 1.5],
    ['64 concurrent single inputs / transformers.js', 'single', 'plainSingle', 2],
  ];
  for (const [name, of, to, atLeast] of compared) {
    report.add({ name, value: ratio(of, to, 'wall'), atLeast });
    report.add({ name: '  by processor time of the servers', value: ratio(of, to, 'processor') });
  }
}

// --- latency, tokenization, serialisation, memory ---

async function latency(): Promise<void> {
  await using model = await load({ ...spec, threads: 1 });
  const text = 'How tall does a baobab grow?';
  const context: CallContext = {
    requestId: 'bench',
    signal: new AbortController().signal,
    accountId: 'bench',
    keyId: 'bench',
    priority: 'interactive',
  };
  const target = new URL('/v1/embeddings', server.address);
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const request = postBytes(target, headers, JSON.stringify({ model: MODEL, input: text }));
  let answered = (): void => {};
  const socket = await openConnection(target, () => answered());
  socket.on('error', (error) => {
    throw error;
  });
  const own: number[] = [];
  const http: number[] = [];
  for (let round = 0; round < (values.quick ? 200 : 1000); round += 1) {
    const began = performance.now();
    await model.embedding?.embed({ inputs: [text] }, context);
    const between = performance.now();
    await new Promise<void>((resolve) => {
      answered = resolve;
      socket.write(request);
    });
    own.push(between - began);
    http.push(performance.now() - between);
  }
  socket.destroy();
  console.log(
    `one short input: engine ${median(own).toFixed(2)} ms, over HTTP ${median(http).toFixed(2)} ms (medians)`,
  );
  report.add({ name: 'added latency of one short input', value: median(http) - median(own), atMost: 2, unit: ' ms' });
}

/** Open WebUI and others send each text alone, all at once. */
async function singly(): Promise<void> {
  const several = passages(400, { seed: 11 });
  const pool = new Pool(server.address, { connections: several.length });
  const ask = async (input: string | string[]): Promise<number> => {
    const answer = await pool.request({
      method: 'POST',
      path: '/v1/embeddings',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, input }),
    });
    await answer.body.dump({ limit: Number.POSITIVE_INFINITY });
    return answer.statusCode;
  };
  const timed = async (work: () => Promise<number[]>): Promise<number> => {
    const began = performance.now();
    const statuses = await work();
    const refused = statuses.filter((status) => status !== 200);
    if (refused.length > 0) throw new Error(`${refused.length} of ${statuses.length} requests got ${refused[0]}`);
    return performance.now() - began;
  };
  const ratios: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const together = await timed(async () => [await ask(several)]);
    ratios.push(together / (await timed(() => Promise.all(several.map(ask)))));
  }
  await pool.destroy();
  report.add({ name: '400 requests of one text at once / one request of 400', value: median(ratios), atLeast: 0.5 });
}

function tokenization(): void {
  const times: number[] = [];
  for (let round = 0; round < 20; round += 1) {
    // New texts each time: words may be cached, sentences may not.
    const fresh = passages(200, { seed: 100 + round, fewest: 60, most: 120 });
    const processor = process.cpuUsage();
    const tokens = fresh.reduce((sum, text) => sum + encode(text).length, 0);
    times.push(process.cpuUsage(processor).user / (tokens / 128));
  }
  report.add({ name: 'tokenization of 128 tokens', value: median(times), atMost: 40, unit: ' µs', digits: 0 });
}

async function serialisation(): Promise<void> {
  const vectors = Float32Array.from({ length: 256 * 1024 }, (_, index) => Math.sin(index * 12.9898) / 22.6);
  for (const [format, atMost] of [
    ['float', 25],
    ['base64', 4],
  ] as const) {
    const times: number[] = [];
    const blocks: number[] = [];
    for (let round = 0; round < 15; round += 1) {
      let writing = true;
      let longest = 0;
      let lastTurn = performance.now();
      const watch = (async () => {
        while (writing) {
          await nextTurn();
          longest = Math.max(longest, performance.now() - lastTurn);
          lastTurn = performance.now();
        }
      })();
      const processor = process.cpuUsage();
      await writeEmbeddings({ vectors, dimensions: 1024, model: MODEL, promptTokens: 1, format });
      const { user, system } = process.cpuUsage(processor);
      writing = false;
      await watch;
      times.push((user + system) / 1000);
      blocks.push(longest);
    }
    report.add({ name: `256 x 1024 floats as ${format}, processor time`, value: median(times), atMost, unit: ' ms' });
    report.add({ name: `  longest block of the event loop`, value: median(blocks), atMost: 20, unit: ' ms' });
  }
}

async function reading(): Promise<void> {
  for (const [what, value] of await longestBlocks(values.quick ? 3 : 9)) {
    report.add({ name: `longest block of the event loop, reading ${what}`, value, atMost: 20, unit: ' ms', digits: 1 });
  }
}

/** Server and engine processes. */
const serverMb = () => {
  const pid = server.process.pid ?? 0;
  return { server: residentMb(pid), engines: childrenOf(pid).reduce((sum, child) => sum + residentMb(child), 0) };
};

async function memory(): Promise<void> {
  const total = values.quick ? 2_000 : 10_000;
  const bodies = passages(500, { seed: 9, fewest: 3, most: 12 }).map((input) =>
    JSON.stringify({ model: MODEL, input }),
  );
  let sent = 0;
  async function upTo(count: number): Promise<void> {
    async function work(): Promise<void> {
      while (sent < count) {
        const answer = await baobab.request({
          method: 'POST',
          path: '/v1/embeddings',
          headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
          body: bodies[sent++ % bodies.length] as string,
        });
        await answer.body.dump();
      }
    }
    await Promise.all(Array.from({ length: 32 }, work));
  }
  await upTo(total * 0.3);
  const early = serverMb();
  await upTo(total);
  const late = serverMb();
  console.log(
    `memory after ${total * 0.3} and ${total} requests: server ${early.server.toFixed(0)} → ${late.server.toFixed(0)} MB, ` +
      `engines ${early.engines.toFixed(0)} → ${late.engines.toFixed(0)} MB`,
  );
  const growth = (late.server + late.engines) / (early.server + early.engines);
  report.add({ name: `memory after ${total} requests / after ${total * 0.3}`, value: growth, atMost: 1.1 });
  if (values.quick) return;

  let peak = 0;
  const watch = setInterval(() => {
    const { server: own, engines } = serverMb();
    peak = Math.max(peak, own + engines);
  }, 20);
  const input = passages(2048, { seed: 7, fewest: 180, most: 190 });
  const answer = await baobab.request({
    method: 'POST',
    path: '/v1/embeddings',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, input }),
  });
  await answer.body.dump({ limit: Number.POSITIVE_INFINITY });
  clearInterval(watch);
  const more = peak - late.server - late.engines;
  report.add({
    name: '2048 long inputs in one request, extra memory',
    value: more,
    atMost: 250,
    unit: ' MB',
    digits: 0,
  });
}

await throughput();
await latency();
await singly();
tokenization();
await serialisation();
await reading();
await memory();
await baobab.close();
clients.kill();
report.print();
