import { mayRepeatCall } from '@baobab/core/domain/attempts.ts';
import type { CallContext, EmbeddingInput } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { EngineCrash } from '../process/engine-crash.ts';
import type { EngineProcess } from '../process/engine-process.ts';
import { type CallSize, createPlacement } from './placement.ts';
import type { Supervisor } from './supervisor.ts';

interface DispatcherDependencies {
  slug: string;
  /** Into how many parts a large request is cut at least. */
  processes: number;
  supervisor: Pick<Supervisor, 'answered' | 'stopped'>;
  onChunk(inputs: number): void;
}

interface RunOptions extends CallSize {
  /** Whether a call that failed may be made again. Default: always. */
  mayRetry?(): boolean;
}

type Call<T> = (replica: EngineProcess) => Promise<T>;
type ChunkCall<T> = (replica: EngineProcess, chunk: { start: number; end: number }, context: CallContext) => Promise<T>;

/** Gives calls to the processes of one model, and calls of a crashed process to another one. */
export class Dispatcher {
  readonly #dependencies: DispatcherDependencies;
  readonly #placement = createPlacement<EngineProcess>();

  constructor(dependencies: DispatcherDependencies) {
    this.#dependencies = dependencies;
  }

  add(replica: EngineProcess): void {
    this.#placement.add(replica);
  }

  remove(replica: EngineProcess): void {
    this.#placement.remove(replica);
  }

  /** Fails what waits and what comes later. */
  close(error: Error): void {
    this.#placement.close(error);
  }

  async run<T>(context: CallContext, options: RunOptions, call: Call<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const placed = this.#placement.place(context, options);
      const { replica, release } = placed instanceof Promise ? await placed : placed;
      try {
        const result = await call(replica);
        this.#dependencies.supervisor.answered(replica);
        return result;
      } catch (error) {
        this.#rethrowUnlessRetried(error, options.mayRetry?.() === false ? Number.POSITIVE_INFINITY : attempt);
      } finally {
        release();
      }
    }
  }

  /** Runs the chunks of one request; the first failure stops the others. */
  async runChunks<T>(inputs: readonly EmbeddingInput[], context: CallContext, call: ChunkCall<T>): Promise<T[]> {
    const { processes, onChunk } = this.#dependencies;
    const chunks = splitInputs(inputs, processes);
    const [only, ...more] = chunks;
    if (only !== undefined && more.length === 0) {
      const answer = this.run(context, only, (replica) => call(replica, only, context));
      // While the engine works.
      onChunk(inputs.length);
      return [await answer];
    }
    const stop = new AbortController();
    const own = { ...context, signal: AbortSignal.any([context.signal, stop.signal]) };
    try {
      return await Promise.all(
        chunks.map(async (chunk) => {
          onChunk(chunk.end - chunk.start);
          try {
            return await this.run(own, { ...chunk, isPart: true }, (replica) => call(replica, chunk, own));
          } catch (error) {
            throw withRequestIndex(error, chunk.start);
          }
        }),
      );
    } catch (error) {
      stop.abort();
      throw error;
    }
  }

  #rethrowUnlessRetried(error: unknown, attempt: number): void {
    if (!(error instanceof EngineCrash)) throw error;
    const { slug, supervisor } = this.#dependencies;
    if (mayRepeatCall(error.suspect ? 'hang' : 'crash', attempt) && !supervisor.stopped) return;
    throw errors.modelUnavailable(slug, 'its engine stopped while it worked on this request', error);
  }
}

/**
 * Cuts a large request into chunks of neighbouring inputs: all processes can work on it, a crash costs one chunk, and small
 * requests run between the chunks.
 */
interface Chunk {
  start: number;
  /** Exclusive. */
  end: number;
  /** 1 is a full chunk. */
  weight: number;
  /** Weight of its longest input. */
  longest: number;
}

const CHUNK_INPUTS = 256;
/** About 16 000 tokens: one or two seconds of a core for a small encoder, with enough inputs to sort by length. */
const CHUNK_CHARS = 65_536;
/** Less is not worth another process: 8 short inputs, or about 500 tokens, which are two batches. */
const MIN_WEIGHT = 1 / 32;
/** Average length of a token. */
const CHARS_PER_TOKEN = 4;
/** To decode an image and to run it takes about as long as 500 tokens. */
const IMAGE_WEIGHT = 1 / 32;
/** Most characters of data URLs in a chunk, which is sent as one frame. */
const CHUNK_URL_CHARS = 67_108_864;

function weightOf(input: EmbeddingInput): number {
  if (typeof input === 'object' && 'url' in input) return Math.max(IMAGE_WEIGHT, input.url.length / CHUNK_URL_CHARS);
  const chars = typeof input === 'string' ? input.length : input.length * CHARS_PER_TOKEN;
  return Math.max(1 / CHUNK_INPUTS, chars / CHUNK_CHARS);
}

export function splitInputs(inputs: readonly EmbeddingInput[], processes: number): Chunk[] {
  const total = inputs.reduce((sum, input) => sum + weightOf(input), 0);
  const parts = Math.max(1, Math.ceil(total), Math.min(processes, inputs.length, Math.floor(total / MIN_WEIGHT)));
  const share = total / parts;
  const chunks: Chunk[] = [];
  let start = 0;
  let weight = 0;
  let longest = 0;
  let before = 0;
  for (const [index, input] of inputs.entries()) {
    const own = weightOf(input);
    weight += own;
    longest = Math.max(longest, own);
    // Against the running total, so that rounding never leaves a tiny last chunk.
    if (before + weight >= share * (chunks.length + 1) - 1e-9 || index === inputs.length - 1) {
      chunks.push({ start, end: index + 1, weight, longest });
      start = index + 1;
      before += weight;
      weight = 0;
      longest = 0;
    }
  }
  return chunks;
}

/** An engine names inputs by their index in the chunk; the client knows their index in the request. */
export function withRequestIndex(error: unknown, start: number): unknown {
  if (!(error instanceof ApiError) || start === 0) return error;
  return error.mapFields(([name = '', index, ...rest]) =>
    typeof index === 'number' ? [name, index + start, ...rest] : index === undefined ? [name] : [name, index, ...rest],
  );
}
