import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SamplingOptions } from '@baobab/core/engine/engine.ts';
import { getLlama, type LlamaContext, LlamaGrammarEvaluationState, LlamaLogLevel, type Token } from 'node-llama-cpp';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { llamaLibrary } from '../backend/local-builds.ts';
import { selfTestModel } from '../backend/test-model.ts';
import { type AddonContext, addonOf, LIBRARY_VERSION, type TokenWithLogits } from './addon.ts';
import { ALONE, createBatching, sharedBy, steadyBy } from './batching.ts';
import { type ContextSequencesOptions, createSequences } from './native-sequence.ts';
import { samplingOptions } from './sampling.ts';
import type { EvaluatedToken, GenerateOptions, Sequence } from './sequence.ts';
import { createSlotPool } from './slots.ts';
import { measureSteadiness } from './steadiness.ts';
import { librarySequence } from './testing/library-sequence.ts';

/**
 * The way past node-llama-cpp's public interface, beside that interface. A new version of the library may change what is inside it: then
 * these tests fail, and `LIBRARY_VERSION` is raised when they pass again.
 */

const CONTEXT_SIZE = 256;
const BATCH_SIZE = 32;
const PROMPT = Array.from({ length: 20 }, (_, at) => (at * 7 + 10) as Token);

const directory = await mkdtemp(join(tmpdir(), 'baobab-direct-'));
const modelPath = join(directory, 'model.gguf');
await writeFile(modelPath, selfTestModel());
const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.disabled });
const model = await llama.loadModel({ modelPath });
afterAll(async () => {
  await model.dispose();
  await llama.dispose();
  await rm(directory, { recursive: true });
});

type Way = 'library' | 'native';
const WAYS: readonly Way[] = ['library', 'native'];

type Opening = Partial<
  Pick<ContextSequencesOptions, 'find' | 'idleRows' | 'open' | 'startLength' | 'maxLength'> & { forwardOnly: boolean }
>;

async function open(way: Way, count = 1, { idleRows = 'none', forwardOnly = false, ...given }: Opening = {}) {
  const batching = createBatching({ lonePromptTokens: BATCH_SIZE, sharedPromptTokens: BATCH_SIZE });
  const lengths: number[] = [];
  const openContext = async (contextSize: number) => {
    lengths.push(contextSize);
    const context = await model.createContext({
      contextSize,
      sequences: count + (idleRows === 'shape' ? 1 : 0),
      batchSize: BATCH_SIZE,
      threads: 1,
      batching: {
        itemPrioritizationStrategy: batching.strategy,
        dispatchSchedule: (dispatch) => queueMicrotask(dispatch),
      },
    });
    if (!forwardOnly) return context;
    const sequence = Object.defineProperty(context.getSequence(), 'needsCheckpoints', { value: true });
    return Object.assign(context, { getSequence: () => sequence });
  };
  const ofLibrary = async () => {
    const context = await openContext(CONTEXT_SIZE);
    const sequences = Array.from({ length: count }, (_, id) => librarySequence(context.getSequence(), id));
    return { sequences, close: () => context.dispose() };
  };
  const { sequences, close } =
    way === 'library'
      ? await ofLibrary()
      : await createSequences({
          slug: 'acme/tiny',
          open: openContext,
          startLength: CONTEXT_SIZE,
          maxLength: CONTEXT_SIZE,
          batching,
          threads: () => 1,
          idleRows,
          ...given,
        });
  return {
    sequences: sequences as readonly [Sequence, ...Sequence[]],
    batching,
    lengths,
    close,
    [Symbol.asyncDispose]: close,
  };
}

interface Run {
  request?: SamplingOptions;
  tokens?: readonly Token[];
  count?: number;
  probabilities?: boolean;
  ahead?: boolean;
  grammar?: string;
  priority?: GenerateOptions['priority'];
  replace?: (token: Token, at: number) => readonly Token[] | undefined;
}

/** What a sequence writes. */
async function write(sequence: Sequence, run: Run = {}): Promise<EvaluatedToken[]> {
  const { request = { temperature: 1, seed: 5 }, count = 24, ahead = true, grammar } = run;
  const generated: number[] = [];
  const compiled = grammar === undefined ? undefined : await llama.createGrammar({ grammar });
  const state = compiled && new LlamaGrammarEvaluationState({ model, grammar: compiled });
  const biases = request.logitBias ?? new Map<number, number>();
  const steps = sequence.generate(run.tokens ?? PROMPT, {
    priority: run.priority ?? ALONE,
    sampling: {
      ...samplingOptions({ request, generated, maxTokens: count, randomSeed: () => 1 }),
      ...(state && { grammarEvaluationState: () => state }),
    },
    biases: () => biases,
    withEnd: false,
    probabilities: run.probabilities ?? false,
    mayRunAhead: () => ahead && generated.length + 1 < count,
  });
  const written: EvaluatedToken[] = [];
  let replacement: readonly Token[] | undefined;
  while (written.length < count) {
    const step = await steps.next(replacement);
    if (step === undefined) break;
    written.push(step);
    generated.push(step.token);
    replacement = run.replace?.(step.token, written.length);
  }
  await steps.end();
  return written;
}

/** Computes a batch, and then says that it failed: as when memory runs out in the last of several passes. */
const failingAfterDecode = (context: AddonContext, failing: () => boolean): AddonContext => ({
  setThreads: (threads) => context.setThreads(threads),
  initBatch: (tokens) => context.initBatch(tokens),
  addToBatch: (...step) => context.addToBatch(...step),
  async decodeBatch() {
    await context.decodeBatch();
    if (failing()) throw new Error('no memory');
  },
  sampleToken: context.sampleToken.bind(context),
  removeTokenCellsFromSequence: (...cells) => context.removeTokenCellsFromSequence(...cells),
  disposeSequence: (id) => context.disposeSequence(id),
});
/** The model never ends its answer. */
const ENDLESS = new Map([[2, -100]]);
const LONG = { startLength: CONTEXT_SIZE, maxLength: 4 * CONTEXT_SIZE };

/** The same on both ways. */
async function both<T>(work: (opened: Awaited<ReturnType<typeof open>>) => Promise<T>, count = 1): Promise<[T, T]> {
  const results: T[] = [];
  for (const way of WAYS) {
    await using opened = await open(way, count);
    results.push(await work(opened));
  }
  return results as [T, T];
}

describe('sequences past the public interface of node-llama-cpp', () => {
  it('are used with the version that is installed', async () => {
    const installed = JSON.parse(await readFile(join(llamaLibrary(), 'package.json'), 'utf8'));
    expect(installed).toMatchObject({ version: LIBRARY_VERSION });
    await using _ = await open('native');
  });

  it('are refused with the known version when the library is another inside', () => {
    const context = { model: { llama: {} } } as LlamaContext;
    expect(() => addonOf(context, undefined)).toThrow(`another node-llama-cpp than ${LIBRARY_VERSION}`);
  });

  it.each<[string, Run]>([
    ['a seed', {}],
    ['a seed and no step ahead', { ahead: false }],
    ['temperature 0', { request: { temperature: 0 } }],
    ['top_p', { request: { temperature: 1.5, topP: 0.7, seed: 9 } }],
    [
      'penalties',
      { request: { temperature: 0.6, frequencyPenalty: 1.5, presencePenalty: 0.5, seed: 3 }, ahead: false },
    ],
    [
      'biases',
      {
        request: {
          temperature: 0.8,
          seed: 3,
          logitBias: new Map([
            [40, 4],
            [41, -100],
          ]),
        },
      },
    ],
    ['probabilities', { probabilities: true, count: 4 }],
    ['a grammar', { grammar: 'root ::= ("ab" | "ba" | "cde"){9}', ahead: false }],
    ['a grammar that ends the answer', { grammar: 'root ::= "abc"', ahead: false }],
    ['a prompt that takes several batches', { tokens: Array.from({ length: 75 }, (_, at) => (at * 3 + 5) as Token) }],
  ])('write the same with %s', async (_name, run) => {
    const [library, direct] = await both(({ sequences: [sequence] }) => write(sequence, run));
    expect(library.length).toBeGreaterThan(2);
    expect(direct).toEqual(library);
  });

  it('count the tokens that a penalty is for, also those of a step ahead', async () => {
    const request = { temperature: 0.6, frequencyPenalty: 1.5, presencePenalty: 0.5, seed: 3 };
    await using opened = await open('native', 2);
    const [first, second] = opened.sequences;
    expect(await write(first, { request, ahead: true })).toEqual(
      await write(second as Sequence, { request, ahead: false }),
    );
  });

  it('write the same when the caller replaces tokens, with few or more than a batch holds', async () => {
    const long = Array.from({ length: BATCH_SIZE * 2 + 5 }, (_, at) => (at + 50) as Token);
    const replace = (token: Token, at: number) => (at === 2 ? [token, 7 as Token] : at === 4 ? long : undefined);
    const [library, direct] = await both(async ({ sequences: [sequence] }) => ({
      written: await write(sequence, { replace, ahead: false, count: 8 }),
      tokens: sequence.tokens,
    }));
    expect(direct).toEqual(library);
    expect(direct.tokens).toHaveLength(PROMPT.length + 1 + 2 + 1 + long.length + 3);
  });

  it('write the same after they forgot a part or all', async () => {
    const [library, direct] = await both(async ({ sequences: [sequence] }) => {
      await sequence.read(PROMPT, ALONE);
      await sequence.truncate(12);
      const part = await write(sequence);
      await sequence.truncate(0);
      expect(sequence.tokens).toEqual([]);
      return [part, await write(sequence)];
    });
    expect(direct).toEqual(library);
  });

  it('do not mix when several write at once', async () => {
    const prompts = [PROMPT, PROMPT.toReversed(), PROMPT.slice(5)];
    const [library, direct] = await both(async ({ sequences, batching }) => {
      const leave = sequences.map(() => batching.share());
      const request = { temperature: 0 };
      const written = sequences.map(async (sequence, at) => {
        const step = await write(sequence, {
          request,
          tokens: prompts[at] as Token[],
          priority: sharedBy(sequence.id),
        });
        leave[at]?.();
        return step;
      });
      return Promise.all(written);
    }, prompts.length);
    await using alone = await open('native', prompts.length);
    for (const [at, sequence] of alone.sequences.entries()) {
      const written = await write(sequence, { request: { temperature: 0 }, tokens: prompts[at] as Token[] });
      expect(direct[at]).toEqual(written);
      expect(library[at]).toEqual(written);
    }
  });

  it('hold what was computed when the caller stops, and go on from there', async () => {
    for (const way of WAYS) {
      await using opened = await open(way);
      const [sequence] = opened.sequences;
      const steps = sequence.generate(PROMPT, {
        priority: ALONE,
        sampling: samplingOptions({
          request: { temperature: 0 },
          generated: [],
          maxTokens: 9,
          randomSeed: () => 1,
        }),
        biases: () => new Map(),
        withEnd: false,
        probabilities: false,
        mayRunAhead: () => true,
      });
      const first = await steps.next();
      await steps.end();
      // Whether the step ahead has started by then depends on the moment.
      expect(sequence.tokens.slice(0, PROMPT.length)).toEqual(PROMPT);
      expect([[], [first?.token]]).toContainEqual(sequence.tokens.slice(PROMPT.length));
      expect(await write(sequence, { tokens: [9 as Token], count: 2 })).toHaveLength(2);
    }
  });

  it('fail what does not fit, and work on', async () => {
    await using opened = await open('native', 2);
    const [first, second] = opened.sequences;
    const tooLong = Array.from({ length: CONTEXT_SIZE + 1 }, () => 5 as Token);
    await expect(first.read(tooLong, ALONE)).rejects.toThrow('full');
    await first.truncate(0);
    expect(await write(first)).toEqual(await write(second as Sequence));
  });

  it('fail a batch that llama.cpp refuses, and work on', async () => {
    await using opened = await open('native', 2);
    const [first, second] = opened.sequences;
    const unknown = 1_000_000 as Token;
    await expect(first.read([unknown], ALONE)).rejects.toThrow();
    await expect(write(first, { tokens: [unknown] })).rejects.toThrow();
    await first.truncate(0);
    expect(await write(first)).toEqual(await write(second as Sequence));
  });

  it('forget what a batch that failed has left in the cache', async () => {
    let failing = false;
    await using opened = await open('native', 1, {
      find: (...found) => {
        const addon = addonOf(...found);
        return addon && { ...addon, context: failingAfterDecode(addon.context, () => failing) };
      },
    });
    const slots = createSlotPool({ sequences: opened.sequences, chunkTokens: BATCH_SIZE });
    const request = {
      accountId: 'a',
      tokens: PROMPT,
      reproducible: false,
      fresh: false,
      signal: new AbortController().signal,
    };
    const first = await slots.acquire(request);
    await first.slot.sequence.read(PROMPT.slice(0, 5), ALONE);
    failing = true;
    await expect(first.slot.sequence.read(PROMPT.slice(5, 9), ALONE)).rejects.toThrow('no memory');
    failing = false;
    // As for a request that was cancelled meanwhile.
    await first.release({ keep: true });
    const { slot, cachedTokens } = await slots.acquire(request);
    expect(cachedTokens).toBe(5);
    expect(await write(slot.sequence, { tokens: PROMPT.slice(5), count: 4 })).toHaveLength(4);
  });

  it.each<
    [string, Pick<ContextSequencesOptions, 'idleRows'> & { priority: (id: number) => GenerateOptions['priority'] }]
  >([
    ['alone in their batches', { priority: () => ALONE }],
    ['beside others', { priority: steadyBy }],
    ['in batches without gaps', { idleRows: 'gaps', priority: steadyBy }],
    ['in batches that keep their shape', { idleRows: 'shape', priority: steadyBy }],
  ])('write the same with a seed while others write, stop and begin again: %s', async (_, { priority, ...shape }) => {
    await using opened = await open('native', 3, shape);
    const [first, ...others] = opened.sequences;
    const last = opened.sequences.at(-1) ?? first;
    const seeded = (sequence: Sequence) =>
      write(sequence, {
        request: { temperature: 1, seed: 11, frequencyPenalty: 0.5 },
        count: 60,
        priority: priority(sequence.id),
      });
    const alone = await seeded(first);
    await first.truncate(0);
    expect(await seeded(last)).toEqual(alone);
    await last.truncate(0);
    let over = false;
    const neighbours = others.map(async (sequence, at) => {
      while (!over) {
        const leave = opened.batching.share();
        await write(sequence, { request: { temperature: 1 }, count: 3 + at, priority: sharedBy(sequence.id) });
        leave();
        await sequence.truncate(at * 7);
      }
    });
    const written = await seeded(first);
    over = true;
    await Promise.all(neighbours);
    expect(written).toEqual(alone);
  });

  it.each(['none', 'shape'] as const)('are found to be steady, idle rows: %s', async (idleRows) => {
    await using opened = await open('native', 3, { idleRows });
    expect(opened.sequences).toHaveLength(3);
    expect(await measureSteadiness(opened.sequences)).toBe('together');
    expect(opened.sequences.map(({ tokens }) => tokens.length)).toEqual([0, 0, 0]);
    expect(await measureSteadiness(opened.sequences.slice(0, 1))).toBe('together');
  });

  it('are found not to be steady where the last bit depends on the neighbours', async () => {
    let rows = 0;
    await using opened = await open('native', 3, {
      find(...found) {
        const addon = addonOf(...found);
        const { context } = addon;
        const addToBatch: AddonContext['addToBatch'] = (...row) => {
          rows += 1;
          return context.addToBatch(...row);
        };
        const initBatch: AddonContext['initBatch'] = (tokens) => {
          rows = 0;
          context.initBatch(tokens);
        };
        const sampleToken = (async (...asked: Parameters<AddonContext['sampleToken']>) => {
          const [token, a, b, logits, total] = await (
            context.sampleToken as (...of: unknown[]) => Promise<TokenWithLogits>
          )(...asked);
          return [token, a, b, logits, rows > 1 ? total * (1 + 1e-9) : total];
        }) as AddonContext['sampleToken'];
        return {
          ...addon,
          context: { ...failingAfterDecode(context, () => false), addToBatch, initBatch, sampleToken },
        };
      },
    });
    expect(await measureSteadiness(opened.sequences)).toBe('alone');
  });

  it.each([
    ['alone in their batches', () => ALONE],
    ['beside others', steadyBy],
  ] as const)('write the same bits when the context grows under them: %s', async (_, priority) => {
    const seeded = (sequence: Sequence) =>
      write(sequence, {
        request: { temperature: 1, seed: 11, logitBias: ENDLESS },
        count: 500,
        probabilities: true,
        priority: priority(sequence.id),
      });
    await using whole = await open('native', 3, { ...LONG, startLength: LONG.maxLength });
    const expected = await seeded(whole.sequences[1] as Sequence);
    expect(whole.lengths).toEqual([LONG.maxLength]);

    await using growing = await open('native', 3, LONG);
    const [first, second, third] = growing.sequences as readonly [Sequence, Sequence, Sequence];
    await third.read(PROMPT, ALONE);
    const request = { temperature: 1, logitBias: ENDLESS };
    const neighbour = write(first, { request, count: 400, priority: sharedBy(first.id) });
    expect(await seeded(second)).toEqual(expected);
    expect(await neighbour).toHaveLength(400);
    expect(growing.lengths).toEqual([CONTEXT_SIZE, 2 * CONTEXT_SIZE, 4 * CONTEXT_SIZE]);
    // What idle sequences hold is kept too.
    await whole.sequences[2]?.read(PROMPT, ALONE);
    const more = { tokens: [9 as Token], probabilities: true };
    expect(await write(third, more)).toEqual(await write(whole.sequences[2] as Sequence, more));
  });

  it('make room once for a text whose length is known', async () => {
    await using opened = await open('native', 1, LONG);
    const [sequence] = opened.sequences;
    sequence.expectedTokens = 3 * CONTEXT_SIZE;
    expect(await write(sequence, { count: 2 })).toHaveLength(2);
    expect(opened.lengths).toEqual([CONTEXT_SIZE, 3 * CONTEXT_SIZE]);
  });

  it('compute again what the library cannot copy', async () => {
    const run: Run = { request: { temperature: 0, logitBias: ENDLESS }, count: 300 };
    await using whole = await open('native', 1, { ...LONG, startLength: LONG.maxLength });
    await using growing = await open('native', 1, { ...LONG, forwardOnly: true });
    expect(await write(growing.sequences[0], run)).toEqual(await write(whole.sequences[0], run));
    expect(growing.lengths).toEqual([CONTEXT_SIZE, 2 * CONTEXT_SIZE]);
  });

  /** Contexts of two sequences, and what to do with one that is longer than the first. */
  const contexts =
    (grow: (contextSize: number) => void) =>
    async (contextSize: number): Promise<LlamaContext> => {
      if (contextSize > CONTEXT_SIZE) grow(contextSize);
      return model.createContext({ contextSize, sequences: 2, batchSize: BATCH_SIZE, threads: 1 });
    };
  const noMemory = () => {
    throw new Error('no memory');
  };
  const TOO_LONG = Array.from({ length: CONTEXT_SIZE + 1 }, () => 5 as Token);
  const refused = { code: 'model_unavailable', message: expect.stringContaining('no memory for a longer context') };

  it('fail what there is no memory for, and keep what they hold', async () => {
    const asked: number[] = [];
    await using opened = await open('native', 2, {
      ...LONG,
      open: contexts((length) => {
        asked.push(length);
        noMemory();
      }),
    });
    const [first, second] = opened.sequences as readonly [Sequence, Sequence];
    await first.read(PROMPT, ALONE);
    await expect(second.read(TOO_LONG, ALONE)).rejects.toMatchObject(refused);
    expect(asked).toEqual([2 * CONTEXT_SIZE]);
    expect(first.tokens).toEqual(PROMPT);
    const more = { tokens: [9 as Token], probabilities: true };
    await second.truncate(0);
    await second.read(PROMPT, ALONE);
    expect(await write(first, more)).toEqual(await write(second, more));
  });

  it('fail only what there is no memory for: the others in its batch go on', async () => {
    await using whole = await open('native', 2);
    await using opened = await open('native', 2, { ...LONG, open: contexts(noMemory) });
    const [first, second] = opened.sequences as readonly [Sequence, Sequence];
    const request = { temperature: 0, logitBias: ENDLESS };
    const short = (sequence: Sequence) => write(sequence, { request, count: 100, priority: sharedBy(sequence.id) });
    const leave = opened.batching.share();
    second.expectedTokens = 2 * CONTEXT_SIZE;
    const [written, failed] = await Promise.allSettled([short(first), short(second)]);
    leave();
    expect(failed).toMatchObject({ status: 'rejected', reason: refused });
    expect(written).toEqual({ status: 'fulfilled', value: await short(whole.sequences[0]) });
  });

  it('keep what they hold when it cannot be copied', async () => {
    let copies = 0;
    await using opened = await open('native', 2, {
      ...LONG,
      find: (...found) => {
        const addon = addonOf(...found);
        const save: typeof addon.save = async (id) => {
          if (id === 1) noMemory();
          const copy = await addon.save(id);
          copies += 1;
          return {
            dispose() {
              copies -= 1;
              copy.dispose();
            },
          };
        };
        return { ...addon, save };
      },
    });
    const [first, second] = opened.sequences as readonly [Sequence, Sequence];
    await first.read(PROMPT, ALONE);
    await expect(second.read(TOO_LONG, ALONE)).rejects.toMatchObject(refused);
    expect(opened.lengths).toEqual([CONTEXT_SIZE]);
    expect(copies).toBe(0);
    const more = { tokens: [9 as Token], probabilities: true };
    await second.truncate(0);
    await second.read(PROMPT, ALONE);
    expect(await write(first, more)).toEqual(await write(second, more));
  });

  it.each<[string, Opening]>([
    ['no context can be made', { open: contexts(noMemory) }],
    [
      'a copy cannot be written back',
      {
        find: (...found) => ({
          ...addonOf(...found),
          restore: async () => noMemory(),
        }),
      },
    ],
  ])('end the process when %s: they would go on without what was said', async (_, { open: contexts, ...given }) => {
    const thrown: (() => void)[] = [];
    const immediate = vi.spyOn(globalThis, 'setImmediate').mockImplementation(((task: () => void) => {
      thrown.push(task);
    }) as typeof setImmediate);
    let contextsMade = 0;
    const once = contexts && ((length: number) => (contextsMade++ === 0 ? contexts(length) : noMemory()));
    await using opened = await open('native', 2, { ...LONG, ...given, ...(once && { open: once }) });
    const [first, second] = opened.sequences as readonly [Sequence, Sequence];
    await first.read(PROMPT, ALONE);
    await expect(second.read(TOO_LONG, ALONE)).rejects.toMatchObject(refused);
    immediate.mockRestore();
    expect(thrown).toHaveLength(1);
    expect(thrown[0]).toThrow('no memory');
  });

  it('are closed after a growth that runs', async () => {
    const { promise: growing, resolve: began } = Promise.withResolvers<void>();
    const { promise: goOn, resolve: release } = Promise.withResolvers<void>();
    const plain = contexts(() => {});
    const opened = await open('native', 2, {
      ...LONG,
      open: async (length) => {
        if (length > CONTEXT_SIZE) {
          began();
          await goOn;
        }
        return plain(length);
      },
    });
    const [first, second] = opened.sequences as readonly [Sequence, Sequence];
    await first.read(PROMPT, ALONE);
    const long = second.read(TOO_LONG, ALONE);
    await growing;
    const more = expect(write(first, { tokens: [9 as Token] })).rejects.toThrow('unloaded');
    const forgotten = first.truncate(3);
    const closed = opened.close();
    release();
    await Promise.all([long, more, forgotten, closed]);
    expect(first.tokens).toEqual(PROMPT.slice(0, 3));
  });

  it('begin nothing after the model is unloaded', async () => {
    let samplers = 0;
    await using opened = await open('native', 1, {
      find: (...found) => {
        const addon = addonOf(...found);
        const createSampler = () => {
          samplers++;
          throw new Error('no model');
        };
        return addon && { ...addon, createSampler };
      },
    });
    const [sequence] = opened.sequences;
    await opened.close();
    await expect(write(sequence)).rejects.toThrow('unloaded');
    await expect(sequence.read(PROMPT, ALONE)).rejects.toThrow('unloaded');
    // It needs the model: without one, the process ends.
    expect(samplers).toBe(0);
  });

  it('end with an error when the model is unloaded', async () => {
    await using opened = await open('native');
    const ended = expect(write(opened.sequences[0], { count: 200 })).rejects.toThrow('unloaded');
    await opened.close();
    await ended;
  });
});
