import { mayRepeatCall } from '@baobab/core/domain/attempts.ts';
import type { CallContext, EmbeddingInput } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { EngineCrash } from '../process/engine-crash.ts';
import type { EngineProcess } from '../process/engine-process.ts';
import { splitInputs, withRequestIndex } from './chunks.ts';
import { type CallSize, createPlacement } from './placement.ts';
import type { Supervisor } from './supervisor.ts';

export interface DispatcherDependencies {
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
            return await this.run(own, { weight: chunk.weight, isPart: true }, (replica) => call(replica, chunk, own));
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
