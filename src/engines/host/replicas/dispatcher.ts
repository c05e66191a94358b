import { mayRepeatCall } from '../../../domain/attempts.ts';
import { errors } from '../../../errors/errors.ts';
import type { CallContext, ChatEvent, EmbeddingInput } from '../../engine.ts';
import { EngineCrash } from '../process/engine-crash.ts';
import type { EngineProcess } from '../process/engine-process.ts';
import { splitInputs, withRequestIndex } from './chunks.ts';
import { type CallSize, createPlacement, LIGHT_WEIGHT } from './placement.ts';
import type { Supervisor } from './supervisor.ts';

export interface DispatcherDependencies {
  slug: string;
  /** Into how many parts a large request is cut at least. */
  processes: number;
  supervisor: Pick<Supervisor, 'answered' | 'stopped'>;
  onChunk(inputs: number): void;
}

type Call<T> = (process: EngineProcess) => Promise<T>;
type ChunkCall<T> = (process: EngineProcess, chunk: { start: number; end: number }, context: CallContext) => Promise<T>;

/** Gives calls to the processes of one model, and calls of a crashed process to another one. */
export class Dispatcher {
  readonly #dependencies: DispatcherDependencies;
  readonly #placement = createPlacement<EngineProcess>();

  constructor(dependencies: DispatcherDependencies) {
    this.#dependencies = dependencies;
  }

  add(process: EngineProcess): void {
    this.#placement.add(process);
  }

  remove(process: EngineProcess): void {
    this.#placement.remove(process);
  }

  /** Fails what waits and what comes later. */
  close(error: Error): void {
    this.#placement.close(error);
  }

  async run<T>(context: CallContext, size: CallSize, call: Call<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const placed = this.#placement.place(context, size);
      const { process, release } = placed instanceof Promise ? await placed : placed;
      try {
        const result = await call(process);
        this.#dependencies.supervisor.answered(process);
        return result;
      } catch (error) {
        this.#rethrowUnlessRetried(error, attempt);
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
      const answer = this.run(context, only, (process) => call(process, only, context));
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
            return await this.run(own, { weight: chunk.weight, isPart: true }, (process) => call(process, chunk, own));
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

  /** A stream that has begun is not tried again: the client has its first events. `onEnd` is called after each attempt. */
  async *stream(
    context: CallContext,
    { open, onEnd }: { open(process: EngineProcess): AsyncIterable<ChatEvent>; onEnd(): void },
  ): AsyncGenerator<ChatEvent, void, void> {
    let sent = false;
    for (let attempt = 1; ; attempt += 1) {
      const { process, release } = await this.#placement.place(context, { weight: LIGHT_WEIGHT });
      try {
        for await (const event of open(process)) {
          sent = true;
          yield event;
        }
        this.#dependencies.supervisor.answered(process);
        return;
      } catch (error) {
        this.#rethrowUnlessRetried(error, sent ? Number.POSITIVE_INFINITY : attempt);
      } finally {
        release();
        onEnd();
      }
    }
  }

  #rethrowUnlessRetried(error: unknown, attempt: number): void {
    if (!(error instanceof EngineCrash)) throw error;
    const { slug, supervisor } = this.#dependencies;
    if (mayRepeatCall(error.suspect ? 'hang' : 'crash', attempt) && !supervisor.stopped) return;
    throw errors.modelUnavailable(slug, 'its engine stopped while it worked on this request', error);
  }
}
