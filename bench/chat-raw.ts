/**
 * Compares node-llama-cpp, with all sequences in one context, with our driver on the same weights: time to first token and tokens
 * per second for 1, 4 and 8 streams, one thread, alternating in one process. A second table shows the prefix cache.
 * `node bench/chat-raw.ts [slug] [rounds] [tokens]`. CPU time is less affected by other load than wall time.
 */
import { join } from 'node:path';
import { getLlama, type LlamaContextSequence, LlamaLogLevel } from 'node-llama-cpp';
import type { CallContext, ChatRequest } from '../src/engines/engine.ts';
import type { LlamaOptions } from '../src/engines/llama/driver.ts';
import { load } from '../src/engines/llama/load.ts';
import { weights } from '../test/models/weights.ts';

const [slug = 'tinyllama/tinyllama-1.1b-chat', rounds = '3', tokens = '16'] = process.argv.slice(2);
const STREAMS = [1, 4, 8] as const;
const SEQUENCES = 8;
const maxTokens = Number(tokens);

const spec = { ...(await weights<LlamaOptions>(slug)), threads: 1, parallelSequences: SEQUENCES };
const llama = await getLlama({
  gpu: 'auto',
  build: 'never',
  maxThreads: 0,
  progressLogs: false,
  logLevel: LlamaLogLevel.error,
});
const rawModel = await llama.loadModel({ modelPath: join(spec.directory, spec.engine.options.model) });
const rawContext = await rawModel.createContext({ contextSize: spec.contextLength, sequences: SEQUENCES, threads: 1 });
const rawSequences = Array.from({ length: SEQUENCES }, () => rawContext.getSequence());
await using model = await load(spec);

const question = (stream: number) => `Tell a story about ${stream + 2} trees.`;

let calls = 0;
/** A new account each time, so no prefix is reused. */
const context = (accountId = `account ${calls++}`): CallContext => ({
  requestId: 'bench',
  signal: new AbortController().signal,
  accountId,
  keyId: 'bench',
  priority: 'interactive',
});

interface Stream {
  firstTokenMs: number;
  tokens: number;
}

async function rawStream(sequence: LlamaContextSequence, stream: number): Promise<Stream> {
  const start = performance.now();
  await sequence.clearHistory();
  const prompt = rawModel.tokenize(`<s><|user|>\n${question(stream)}</s>\n<|assistant|>\n`, true);
  const result = { firstTokenMs: 0, tokens: 0 };
  for await (const _ of sequence.evaluate(prompt, { temperature: 0.8, topP: 0.95, seed: stream })) {
    result.firstTokenMs ||= performance.now() - start;
    if (++result.tokens >= maxTokens) break;
  }
  return result;
}

async function driverStream(request: ChatRequest, call = context()): Promise<Stream & { cachedTokens: number }> {
  if (!model.chat) throw new Error(`${slug} has no chat capability`);
  const start = performance.now();
  const result = { firstTokenMs: 0, tokens: 0, cachedTokens: 0 };
  for await (const event of model.chat.generate(request, call)) {
    if (event.type === 'text-delta') result.firstTokenMs ||= performance.now() - start;
    if (event.type === 'end') Object.assign(result, { tokens: event.usage.completionTokens, ...event.usage });
  }
  return result;
}

const ask = (content: string): ChatRequest => ({
  prompt: { messages: [{ role: 'user', content }] },
  temperature: 0.8,
  topP: 0.95,
  maxTokens,
});

interface Rates {
  firstTokenMs: number;
  perSecond: number;
  perCpuSecond: number;
}

async function measure(streams: number, one: (stream: number) => Promise<Stream>): Promise<Rates> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  const results = await Promise.all(Array.from({ length: streams }, (_, stream) => one(stream)));
  const seconds = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const sum = results.reduce((total, result) => total + result.tokens, 0);
  return {
    firstTokenMs: median(results.map((result) => result.firstTokenMs)),
    perSecond: sum / seconds,
    perCpuSecond: sum / ((user + system) / 1e6),
  };
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
const round = (value: number, digits = 1) => Number(value.toFixed(digits));

const rows: Record<string, string | number>[] = [];
for (const streams of STREAMS) {
  const turns: { raw: Rates; driver: Rates }[] = [];
  for (let turn = 0; turn < Number(rounds); turn++) {
    const raw = await measure(streams, (stream) => rawStream(rawSequences[stream] as LlamaContextSequence, stream));
    const driver = await measure(streams, (stream) => driverStream(ask(question(stream))));
    turns.push({ raw, driver });
  }
  const of = (pick: (turn: { raw: Rates; driver: Rates }) => number) => median(turns.map(pick));
  rows.push({
    streams,
    'raw first ms': round(
      of(({ raw }) => raw.firstTokenMs),
      0,
    ),
    'driver first ms': round(
      of(({ driver }) => driver.firstTokenMs),
      0,
    ),
    'raw tokens/s': round(of(({ raw }) => raw.perSecond)),
    'driver tokens/s': round(of(({ driver }) => driver.perSecond)),
    'ratio by wall time': round(
      of(({ raw, driver }) => driver.perSecond / raw.perSecond),
      2,
    ),
    'ratio by CPU time': round(
      of(({ raw, driver }) => driver.perCpuSecond / raw.perCpuSecond),
      2,
    ),
  });
}
console.table(rows);

const prefix = 'The baobab stores water in its trunk and lives for a thousand years. '.repeat(60);
const account = context('prefix');
const cold = await driverStream({ ...ask(`${prefix}Summarise.`), maxTokens: 1 }, account);
const warm = await driverStream({ ...ask(`${prefix}Translate.`), maxTokens: 1 }, account);
console.table([
  { prompt: 'first', 'first token ms': round(cold.firstTokenMs, 0), 'cached tokens': cold.cachedTokens },
  { prompt: 'same prefix', 'first token ms': round(warm.firstTokenMs, 0), 'cached tokens': warm.cachedTokens },
]);
console.log(`speedup ${round(cold.firstTokenMs / warm.firstTokenMs)}`);
await llama.dispose();
