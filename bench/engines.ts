import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { loadCatalog } from '../src/catalog/load.ts';
import type { EngineSpec } from '../src/domain/model.ts';
import { drivers } from '../src/engines/drivers.ts';
import type { CallContext, EngineModel } from '../src/engines/engine.ts';
import type { LlamaOptions } from '../src/engines/llama/driver.ts';
import type { OnnxOptions } from '../src/engines/onnx/driver.ts';
import { createEngineRegistry, type EngineRegistry, type Model, noMetrics } from '../src/engines/registry.ts';
import { modelPaths } from '../src/models/model-paths.ts';
import { systemClock } from '../src/runtime/clock.ts';

/**
 * Measures the cost of the host: the raw runtime in this process against the same work through an engine process, each with one
 * compute thread. Both alternate, because timings drift far more than they differ. The ratio is the median over the turns. On a busy
 * machine only the ratio by processor time is meaningful.
 */
const { values: options } = parseArgs({
  options: {
    'models-dir': { type: 'string', default: join(homedir(), '.baobab', 'models') },
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '3' },
    tokens: { type: 'string', default: '24' },
  },
});
const rounds = Number(options.rounds);
const turnMs = Number(options.seconds) * 1000;
const GOAL = 0.95;

const context: CallContext = {
  requestId: 'bench',
  accountId: 'bench',
  keyId: 'bench',
  priority: 'interactive',
  signal: new AbortController().signal,
};

const catalog = loadCatalog([join(import.meta.dirname, '..', 'catalog')]);
function findModel(slug: string): Model {
  const entry = catalog.find((candidate) => candidate.slug === slug);
  const version = entry?.versions.find((candidate) => candidate.version === entry.recommended);
  if (entry === undefined || version === undefined) throw new Error(`${slug} is not in the catalog`);
  return { entry, version };
}
const directoryOf = ({ entry, version }: Model) =>
  modelPaths(options['models-dir'], { slug: entry.slug, version: version.version }).directory;

function openRegistry(onnxProcesses: number) {
  return createEngineRegistry({
    weights: { ensure: async (model) => ({ directory: directoryOf(model) }) },
    settings: {
      queueLength: 256,
      queueTimeoutSeconds: 600,
      loadTimeoutSeconds: 300,
      hangTimeoutSeconds: 300,
      idleUnloadSeconds: 0,
      memoryBudgetMb: 0,
      permissionModel: true,
      retryUnavailableSeconds: 1,
    },
    drivers,
    driverSettings: { onnxProcesses, onnxThreads: 1, llamaThreads: 1, llamaSequences: 1 },
    clock: systemClock,
    logger: { debug() {}, info() {}, warn: console.error, error: console.error },
    metrics: noMetrics,
    environment: process.env,
  });
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

/** Units per second of wall time, and per second of processor time of all processes involved. */
interface Rate {
  wall: number;
  processor: number;
}
type Turn = () => Promise<Rate>;

/** Of this process and its engine processes. Only the difference over a turn is used. */
async function processorSeconds(registry?: EngineRegistry): Promise<number> {
  const own = process.cpuUsage();
  const reports = (await registry?.list()) ?? [];
  const ticks = reports
    .flatMap(({ pids }) => pids)
    .map((pid) => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [])
    .reduce((sum, fields) => sum + Number(fields[11]) + Number(fields[12]), 0);
  return (own.user + own.system) / 1e6 + ticks / 100;
}

async function measured(registry: EngineRegistry | undefined, work: () => Promise<number>): Promise<Rate> {
  const processor = await processorSeconds(registry);
  const startedAt = performance.now();
  const units = await work();
  const seconds = (performance.now() - startedAt) / 1000;
  return { wall: units / seconds, processor: units / ((await processorSeconds(registry)) - processor) };
}

async function compare(title: string, unit: string, turns: Record<'direct' | 'host', Turn>): Promise<void> {
  const direct: Rate[] = [];
  const host: Rate[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    const first = await turns.direct();
    // Direct turns before and after the hosted one cancel out drift.
    const second = await turns.host();
    const third = await turns.direct();
    if (round === 0) continue;
    direct.push({ wall: (first.wall + third.wall) / 2, processor: (first.processor + third.processor) / 2 });
    host.push(second);
  }
  console.log(title);
  for (const clock of ['wall', 'processor'] as const) {
    const ratio = median(host.map((rate, round) => rate[clock] / (direct[round]?.[clock] ?? 0)));
    const rates = [direct, host].map((list) => median(list.map((rate) => rate[clock])).toFixed(1));
    console.log(
      `  by ${clock} time: direct ${rates[0]} ${unit}, through the host ${rates[1]} ${unit}, ` +
        `ratio ${ratio.toFixed(3)} (${ratio >= GOAL ? 'goal met' : `below the goal of ${GOAL}`})`,
    );
  }
}

async function untilTurnEnds(work: () => Promise<number>): Promise<number> {
  const startedAt = performance.now();
  let units = 0;
  while (performance.now() - startedAt < turnMs) units += await work();
  return units;
}

function capability<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('The model does not have this capability');
  return value;
}

const WORDS =
  'the quick brown fox jumps over a lazy dog while rain falls on wide green hills near the old stone town'.split(' ');
const sentence = (words: number, offset: number) =>
  Array.from({ length: words }, (_, n) => WORDS[(n * 7 + offset) % WORDS.length]).join(' ');
const INPUTS = Array.from({ length: 256 }, (_, n) => sentence(6 + ((n * 13) % 58), n));

// --- embedding ---

const embedAll = async (engine: EngineModel) => {
  const { tokens } = await capability(engine.embedding).embed({ inputs: INPUTS }, { ...context });
  return tokens.reduce((sum, count) => sum + count, 0);
};

/** Prepared batches of about 512 tokens, sorted by length: the best shape for this model. */
function rawBatches(lengths: readonly number[]) {
  const sorted = lengths.toSorted((a, b) => b - a);
  const batches: { feeds: Record<string, Tensor>; tokens: number }[] = [];
  while (sorted.length > 0) {
    const columns = sorted[0] ?? 1;
    const rows = sorted.splice(0, Math.max(1, Math.floor(512 / columns)));
    const cells = rows.flatMap((length) => Array.from({ length: columns }, (_, at) => (at < length ? 1n : 0n)));
    const tensor = (value: (cell: bigint, at: number) => bigint) =>
      new Tensor('int64', BigInt64Array.from(cells, value), [rows.length, columns]);
    batches.push({
      feeds: {
        input_ids: tensor((cell, at) => cell * BigInt(1_000 + (at % 20_000))),
        attention_mask: tensor((cell) => cell),
        token_type_ids: tensor(() => 0n),
      },
      tokens: rows.reduce((sum, length) => sum + length, 0),
    });
  }
  return batches;
}

async function benchEmbedding(): Promise<void> {
  const model = findModel('sentence-transformers/all-minilm-l6-v2');
  const spec = model.version.engine as EngineSpec<OnnxOptions>;
  const directory = directoryOf(model);
  const session = await InferenceSession.create(join(directory, spec.options.model), {
    graphOptimizationLevel: 'all',
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
  });
  const driver = await (await import('../src/engines/onnx/load.ts')).load({
    slug: model.entry.slug,
    version: model.version.version,
    engine: spec,
    directory,
    contextLength: model.entry.contextLength,
    dimensions: model.entry.dimensions,
    maxOutputTokens: null,
    threads: 1,
    parallelSequences: 1,
    backend: 'cpu',
  });
  const { tokens } = await capability(driver.embedding).embed({ inputs: INPUTS }, context);
  const batches = rawBatches(tokens);
  const raw = async () => {
    let done = 0;
    for (const batch of batches) {
      await session.run(batch.feeds);
      done += batch.tokens;
    }
    return done;
  };
  /** Concurrent requests, so the engine always has a next one. */
  const requests = (engine: EngineModel, count: number, registry?: EngineRegistry) => () =>
    measured(registry, async () => {
      const lanes = Array.from({ length: count }, () => untilTurnEnds(() => embedAll(engine)));
      return (await Promise.all(lanes)).reduce((sum, tokens) => sum + tokens, 0);
    });

  const registry = openRegistry(1);
  const lease = await registry.acquire(model, context);
  const hosted = requests(lease.engine, 2, registry);
  await compare('MiniLM, driver in this process', 'tokens/s', { direct: requests(driver, 2), host: hosted });
  await compare('MiniLM, raw runtime', 'tokens/s', {
    direct: () => measured(undefined, () => untilTurnEnds(raw)),
    host: hosted,
  });
  lease.release();
  await registry.close(0);

  const wide = openRegistry(0);
  const wideLease = await wide.acquire(model, context);
  await requests(wideLease.engine, 4)();
  const { wall } = await requests(wideLease.engine, 4)();
  console.log(`MiniLM, host with one process per core: ${wall.toFixed(0)} tokens/s`);
  wideLease.release();
  await wide.close(0);
  await driver[Symbol.asyncDispose]();
  await session.release();
}

// --- chat ---

async function benchChat(): Promise<void> {
  const model = findModel('tinyllama/tinyllama-1.1b-chat');
  const spec = model.version.engine as EngineSpec<LlamaOptions>;
  const llama = await getLlama({ gpu: false, build: 'never', maxThreads: 0, logLevel: LlamaLogLevel.error });
  const weights = await llama.loadModel({ modelPath: join(directoryOf(model), spec.options.model) });
  const runtime = await weights.createContext({ contextSize: 2048, threads: 1, batchSize: 64 });
  const sequence = runtime.getSequence();
  const text = 'Once upon a time';
  const prompt = weights.tokenize(text, true);
  const count = Number(options.tokens);

  /** From the first token to the last. Leaves out the prompt, which is cached on one side. */
  async function generation(tokens: AsyncIterable<unknown>, registry?: EngineRegistry): Promise<Rate> {
    const iterator = tokens[Symbol.asyncIterator]();
    await iterator.next();
    const rate = await measured(registry, async () => {
      for (let seen = 0; seen < count; seen += 1) await iterator.next();
      return count;
    });
    await iterator.return?.();
    return rate;
  }
  const direct = async () => {
    await sequence.clearHistory();
    return await generation(sequence.evaluate(prompt, { temperature: 0 }));
  };

  const registry = openRegistry(1);
  const lease = await registry.acquire(model, context);
  async function* deltas() {
    const generation = capability(lease.engine.chat).generate(
      { prompt: { tokens: [...prompt] }, temperature: 0, maxTokens: count + 4 },
      { ...context },
    );
    for await (const event of generation) if (event.type === 'text-delta') yield event;
  }
  await compare('TinyLlama, raw runtime', 'tokens/s', { direct, host: () => generation(deltas(), registry) });
  lease.release();
  await registry.close(0);
  await llama.dispose();
}

await benchEmbedding();
await benchChat();
