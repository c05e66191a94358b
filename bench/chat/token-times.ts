/**
 * Where the time of one token goes in the llama engine, for one stream: the model's step, choosing the token, and the way from one to
 * the other. The engine runs in this process, so HTTP and the pipe to the server are left out.
 *
 *   node bench/chat/token-times.ts file.gguf [--backend cuda] [--tokens 256] [--rounds 6] [--threads 1] [--sequences 4] [--top-p 0.95]
 *
 * The first half of the rounds is warm-up. A model of `bench/gpu/random-model.ts tiny` shows what a token costs besides the model.
 */
import { basename, dirname, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { LlamaModel } from 'node-llama-cpp';
import type { CallContext } from '../../packages/core/src/engine/engine.ts';
import { load } from '../../packages/engines/src/llama/load.ts';
import { median, printConditions } from '../measure.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    backend: { type: 'string', default: 'cpu' },
    tokens: { type: 'string', default: '256' },
    rounds: { type: 'string', default: '6' },
    threads: { type: 'string', default: '1' },
    sequences: { type: 'string', default: '4' },
    /** Without it, the sampling of a request that names none. */
    'top-p': { type: 'string' },
  },
});
const [file] = positionals;
if (file === undefined) throw new Error('usage: token-times.ts file.gguf');
const rounds = Number(values.rounds);

/** The library's native object. Its methods return promises of work in a thread of libuv's pool. */
interface NativeContext {
  decodeBatch(...args: unknown[]): Promise<unknown>;
  sampleToken(...args: unknown[]): Promise<unknown>;
}

const times = { step: [] as number[], toChoice: [] as number[], choice: [] as number[], toStep: [] as number[] };

/** The native object cannot be changed, so a copy with its methods takes its place. */
function withTimes(native: NativeContext): NativeContext {
  const names = Object.getOwnPropertyNames(Object.getPrototypeOf(native)).filter((name) => name !== 'constructor');
  const copy = Object.fromEntries(names.map((name) => [name, Reflect.get(native, name).bind(native)]));
  let steppedAt: number | undefined;
  let chosenAt: number | undefined;
  return {
    ...copy,
    async decodeBatch(...args) {
      const began = performance.now();
      if (chosenAt !== undefined) times.toStep.push(began - chosenAt);
      chosenAt = undefined;
      const result = await native.decodeBatch(...args);
      steppedAt = performance.now();
      times.step.push(steppedAt - began);
      return result;
    },
    async sampleToken(...args) {
      const began = performance.now();
      if (steppedAt !== undefined) times.toChoice.push(began - steppedAt);
      const result = await native.sampleToken(...args);
      chosenAt = performance.now();
      times.choice.push(chosenAt - began);
      return result;
    },
  };
}

const { createContext } = LlamaModel.prototype;
LlamaModel.prototype.createContext = async function (this: LlamaModel, ...args) {
  const context = await createContext.apply(this, args);
  Reflect.set(context, '_ctx', withTimes(Reflect.get(context, '_ctx')));
  return context;
};

await using model = await load({
  slug: 'bench/chat',
  version: '1',
  engine: { driver: 'llama', task: 'chat', options: { model: basename(file) } },
  directory: dirname(resolve(file)),
  contextLength: 2048,
  dimensions: null,
  maxOutputTokens: null,
  threads: Number(values.threads),
  parallelSequences: Number(values.sequences),
  backend: values.backend,
});

/** Returns the milliseconds of processor time and of the clock for each token after the first. */
async function stream(round: number): Promise<{ costMs: number; tokenMs: number }> {
  const call: CallContext = {
    requestId: 'bench',
    signal: new AbortController().signal,
    accountId: `account ${round}`,
    keyId: 'bench',
    priority: 'interactive',
  };
  let began: { at: number; usage: NodeJS.CpuUsage } | undefined;
  let tokens = 1;
  await model.chat?.generate(
    {
      prompt: { messages: [{ role: 'user', content: 'Trees stand by the river. Tell their story.' }] },
      maxTokens: Number(values.tokens),
      temperature: 0.8,
      ...(values['top-p'] !== undefined && { topP: Number(values['top-p']) }),
    },
    call,
    {
      deliver(event) {
        if (event.type === 'text-delta') began ??= { at: performance.now(), usage: process.cpuUsage() };
      },
      used(usage) {
        tokens = usage.completionTokens;
      },
    },
  );
  if (began === undefined || tokens < 2) throw new Error('the model wrote fewer than two tokens');
  const { user, system } = process.cpuUsage(began.usage);
  return { costMs: (user + system) / 1000 / (tokens - 1), tokenMs: (performance.now() - began.at) / (tokens - 1) };
}

printConditions(`One stream of ${file}, ${JSON.stringify(model.device)}`);
const figures: Awaited<ReturnType<typeof stream>>[] = [];
for (let round = 0; round < rounds; round += 1) {
  if (round === Math.floor(rounds / 2)) for (const list of Object.values(times)) list.length = 0;
  figures.push(await stream(round));
}
const measured = figures.slice(Math.floor(rounds / 2));
const row = (name: string, ms: number) => console.log(`${name.padEnd(34)} ${ms.toFixed(3)} ms`);
row('step of the model', median(times.step));
row('until a token is being chosen', median(times.toChoice));
row('choosing it', median(times.choice));
row('until the next step', median(times.toStep));
row('one token', median(measured.map(({ tokenMs }) => tokenMs)));
row('processor time for one token', median(measured.map(({ costMs }) => costMs)));
