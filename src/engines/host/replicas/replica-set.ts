import type { ApiError } from '../../../errors/api-error.ts';
import { errors } from '../../../errors/errors.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Logger } from '../../../ports/logger.ts';
import type {
  CallContext,
  ChatEvent,
  ChatGeneration,
  ChatRequest,
  EmbeddingRequest,
  EngineModel,
} from '../../engine.ts';
import type { EngineMetrics } from '../metrics.ts';
import { EngineCrash, type EngineProcess } from '../process/engine-process.ts';
import type { CapabilityName } from '../wire/messages.ts';
import { splitInputs, withRequestIndex } from './chunks.ts';
import { createPlacement, EXCLUSIVE_WEIGHT, LIGHT_WEIGHT, type Placement } from './placement.ts';
import type { RestartPolicy } from './restart-policy.ts';

export interface ReplicaSetOptions {
  slug: string;
  /** `slug@version`, for logs and metrics. */
  name: string;
  processes: number;
  start(): EngineProcess;
  policy: RestartPolicy;
  clock: Clock;
  logger: Logger;
  metrics: EngineMetrics;
  /** The processes crashed too often; the set has closed itself. */
  onGiveUp(error: ApiError, cooldownMs: number): void;
}

/** The processes of one model behind one `EngineModel`. */
export interface ReplicaSet {
  /** When the first process has loaded; the others join as they come. Rejects when none can load. */
  readonly ready: Promise<{ engine: EngineModel; loadMs: number }>;
  processes(): readonly EngineProcess[];
  close(graceMs: number): Promise<void>;
}

interface Slot {
  process: EngineProcess | undefined;
  /** Crashes in a row, without an answer between them. */
  failures: number;
  timer: NodeJS.Timeout | undefined;
}

export function createReplicaSet(options: ReplicaSetOptions): ReplicaSet {
  const { slug, name, policy, logger, metrics } = options;
  const placement = createPlacement<EngineProcess>();
  const ready = Promise.withResolvers<{ engine: EngineModel; loadMs: number }>();
  ready.promise.catch(() => {});
  const slots: Slot[] = Array.from({ length: options.processes }, () => ({
    process: undefined,
    failures: 0,
    timer: undefined,
  }));
  let everReady = false;
  let closed = false;

  function launch(slot: Slot): void {
    if (closed) return;
    let process: EngineProcess;
    try {
      process = options.start();
    } catch (error) {
      // Out of file descriptors or the like: the system may have more in a moment.
      lost(slot, 'it could not be started', error instanceof Error ? error : new Error(String(error)));
      return;
    }
    slot.process = process;
    let loadError: Error = new EngineCrash('it did not load');
    process.ready.then(
      ({ capabilities, loadMs }) => {
        if (closed) return;
        placement.add(process);
        if (everReady) return;
        everReady = true;
        ready.resolve({ engine: createEngine(capabilities), loadMs });
        for (const other of slots) if (other.process === undefined) crashed(other, 'it could not load');
      },
      (error: Error) => {
        loadError = error;
      },
    );
    void process.exited.then((reason) => {
      placement.remove(process);
      slot.process = undefined;
      lost(slot, reason, loadError);
    });
  }

  function lost(slot: Slot, reason: string, loadError: Error): void {
    if (closed) return;
    slot.failures += 1;
    if (everReady) crashed(slot, reason);
    else failedToLoad(loadError);
  }

  /** Before anything has ever worked there is no use in trying again at once, unless another process is still at it. */
  function failedToLoad(error: Error): void {
    logger.error({ model: name, err: error }, 'an engine process could not load its model');
    if (slots.some((slot) => slot.process !== undefined)) return;
    closed = true;
    ready.reject(error);
    placement.close(error);
  }

  function crashed(slot: Slot, reason: string): void {
    metrics.restarted(name, reason);
    const verdict = policy.crashed(options.clock.now(), slot.failures);
    logger.warn({ model: name, reason, ...verdict }, 'an engine process ended');
    if (verdict.action === 'restart') {
      slot.timer = setTimeout(() => launch(slot), verdict.delayMs);
      return;
    }
    const error = errors.modelUnavailable(
      slug,
      `its engine crashed too often (${verdict.crashes} in a row), the last time because ${reason}`,
    );
    placement.close(error);
    void close(0);
    options.onGiveUp(error, verdict.cooldownMs);
  }

  /** The engine answered, so it works; a refused input is an answer too. */
  function answered(process: EngineProcess): void {
    policy.succeeded();
    for (const slot of slots) if (slot.process === process) slot.failures = 0;
  }

  const afterCrash = (error: EngineCrash) =>
    errors.modelUnavailable(slug, 'its engine stopped while it worked on this request', error);

  /**
   * A crash takes down everything its process was at; each call gets one more chance on another process, unless the process may
   * have hung on it: that would cost another one as long.
   */
  async function run<T>(
    context: CallContext,
    weight: number,
    call: (process: EngineProcess) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const placed = placement.place(context, weight);
      const { process, release } = placed instanceof Promise ? await placed : placed;
      try {
        const result = await call(process);
        answered(process);
        return result;
      } catch (error) {
        if (!(error instanceof EngineCrash)) throw error;
        if (attempt === 2 || error.suspect || closed) throw afterCrash(error);
      } finally {
        release();
      }
    }
  }

  /** Runs the chunks of one request; the first failure stops the others. */
  async function runChunks<T>(
    inputs: EmbeddingRequest['inputs'],
    context: CallContext,
    call: (process: EngineProcess, chunk: { start: number; end: number }, context: CallContext) => Promise<T>,
  ): Promise<T[]> {
    const chunks = splitInputs(inputs, options.processes);
    const [only, ...more] = chunks;
    if (only !== undefined && more.length === 0) {
      const answer = run(context, only.weight, (process) => call(process, only, context));
      // While the engine works.
      metrics.batchSize(name, inputs.length);
      return [await answer];
    }
    const stop = new AbortController();
    const own = { ...context, signal: AbortSignal.any([context.signal, stop.signal]) };
    try {
      return await Promise.all(
        chunks.map(async (chunk) => {
          metrics.batchSize(name, chunk.end - chunk.start);
          try {
            return await run(own, chunk.weight, (process) => call(process, chunk, own));
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

  async function queryTokens(query: string, context: CallContext): Promise<number> {
    const alone = await run(context, LIGHT_WEIGHT, (process) => process.rerank({ query, documents: [] }, context));
    return alone.tokens;
  }

  function generate(request: ChatRequest, context: CallContext): ChatGeneration {
    let current: ChatGeneration | undefined;
    const usageSoFar = () => current?.usageSoFar() ?? { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

    async function* events(): AsyncGenerator<ChatEvent, void, void> {
      let sent = false;
      for (let attempt = 1; ; attempt += 1) {
        const place: Placement<EngineProcess> = await placement.place(context, LIGHT_WEIGHT);
        try {
          current = place.process.generate(request, context);
          for await (const event of current) {
            sent = true;
            yield event;
          }
          answered(place.process);
          return;
        } catch (error) {
          if (!(error instanceof EngineCrash)) throw error;
          if (sent || attempt === 2 || error.suspect || closed) throw afterCrash(error);
        } finally {
          place.release();
          const { promptTokens, completionTokens } = usageSoFar();
          metrics.tokens(name, { input: promptTokens, output: completionTokens });
        }
      }
    }

    const iterator = events();
    return { usageSoFar, [Symbol.asyncIterator]: () => iterator };
  }

  function createEngine(capabilities: readonly CapabilityName[]): EngineModel {
    const has = (capability: CapabilityName) => capabilities.includes(capability);
    return {
      countTokens: (text) => run(anonymous(), LIGHT_WEIGHT, (process) => process.countTokens(text)),
      ...(has('embedding') && {
        embedding: {
          async embed(request, context) {
            const total = request.inputs.length;
            let vectors: Float32Array | undefined;
            const parts = await runChunks(request.inputs, context, (process, { start, end }, own) =>
              process.embed({ ...request, inputs: request.inputs.slice(start, end) }, own, (dimensions) => {
                vectors ??= new Float32Array(total * dimensions);
                return vectors.subarray(start * dimensions, end * dimensions);
              }),
            );
            const tokens = parts.flatMap((part) => part.tokens);
            metrics.tokens(name, { input: tokens.reduce((sum, count) => sum + count, 0), output: 0 });
            return { vectors: vectors ?? new Float32Array(0), dimensions: parts[0]?.dimensions ?? 0, tokens };
          },
        },
      }),
      ...(has('rerank') && {
        rerank: {
          async rerank({ query, documents }, context) {
            const scores = new Float32Array(documents.length);
            const parts = await runChunks(documents, context, async (process, { start, end }, own) => {
              const part = await process.rerank({ query, documents: documents.slice(start, end) }, own);
              scores.set(part.scores, start);
              return part;
            });
            // A model that reads the query once for each call read it for each chunk; the client sent it once.
            const repeated = parts.length > 1 ? await queryTokens(query, context) : 0;
            const tokens = parts.reduce((sum, part) => sum + part.tokens - repeated, repeated);
            metrics.tokens(name, { input: tokens, output: 0 });
            return { scores, tokens };
          },
        },
      }),
      ...(has('chat') && { chat: { generate } }),
      ...(has('transcription') && {
        transcription: {
          transcribe: (request, context) =>
            run(context, EXCLUSIVE_WEIGHT, (process) => process.transcribe(request, context)),
        },
      }),
      [Symbol.asyncDispose]: () => close(0),
    };
  }

  async function close(graceMs: number): Promise<void> {
    closed = true;
    for (const slot of slots) clearTimeout(slot.timer);
    const gone = errors.modelUnavailable(slug, 'it is being unloaded');
    ready.reject(gone);
    placement.close(gone);
    await Promise.all(slots.map((slot) => slot.process?.close(graceMs)));
  }

  for (const slot of slots) launch(slot);
  return {
    ready: ready.promise,
    processes: () => slots.flatMap((slot) => slot.process ?? []),
    close,
  };
}

const anonymous = (): CallContext => ({
  requestId: '',
  accountId: '',
  keyId: '',
  priority: 'interactive',
  signal: new AbortController().signal,
});
