import { mayRepeatCall } from '@baobab/core/domain/attempts.ts';
import type { ChatPreparation } from '@baobab/core/engine/driver.ts';
import type {
  CallContext,
  ChatCapability,
  ChatRequest,
  EmbeddingCapability,
  EmbeddingInput,
  EngineModel,
  GenerationSink,
  PlacedImage,
  RerankCapability,
  RerankRequest,
  TextTokenizer,
  TokenUsage,
  TranscriptionCapability,
} from '@baobab/core/engine/engine.ts';
import type { CapabilityName } from '@baobab/core/engine/wire/messages.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { EngineMetrics } from '../metrics.ts';
import type { EngineProcess } from '../process/engine-process.ts';
import { EngineCrash } from '../process/pending-calls.ts';
import { type CallSize, type createPlacement, EXCLUSIVE_WEIGHT, LIGHT_WEIGHT } from './placement.ts';

interface ReplicatedEngineOptions {
  slug: string;
  /** `slug@version`, for metrics. */
  name: string;
  /** Into how many parts a large request is cut at least. */
  processes: number;
  capabilities: readonly CapabilityName[];
  placement: ReturnType<typeof createPlacement<EngineProcess>>;
  set: { answered(replica: EngineProcess): void; readonly stopped: boolean; close(graceMs: number): Promise<void> };
  /** Chat requests go through it first. */
  preparation: ChatPreparation | undefined;
  metrics: EngineMetrics;
}

interface RunOptions extends CallSize {
  /** Whether a call that failed may be made again. Default: always. */
  mayRetry?(): boolean;
}

type ChunkCall<T> = (replica: EngineProcess, chunk: Chunk, context: CallContext) => Promise<T>;

/** For calls that belong to no request. A new one each time: calls of one context wait in one line. */
const anonymousContext = (): CallContext => ({
  requestId: '',
  accountId: '',
  keyId: '',
  priority: 'interactive',
  signal: new AbortController().signal,
});

/** The processes of one model as one `EngineModel`: gives calls to them, and calls of a crashed process to another one. */
export class ReplicatedEngine implements EngineModel {
  readonly tokenizer?: TextTokenizer;
  readonly embedding?: EmbeddingCapability;
  readonly rerank?: RerankCapability;
  readonly chat?: ChatCapability;
  readonly transcription?: TranscriptionCapability;
  readonly #options: ReplicatedEngineOptions;

  constructor(options: ReplicatedEngineOptions) {
    this.#options = options;
    const has = (capability: CapabilityName) => options.capabilities.includes(capability);
    if (has('tokenizer')) this.tokenizer = this.#tokenizer();
    if (has('embedding')) this.embedding = this.#embedding(has('images'));
    if (has('rerank')) this.rerank = this.#rerank();
    if (has('chat')) this.chat = this.#chat(has('images'));
    if (has('transcription')) {
      this.transcription = {
        transcribe: (request, context) =>
          this.#run(context, { weight: EXCLUSIVE_WEIGHT }, (replica) => replica.transcribe(request, context)),
      };
    }
  }

  countTokens(text: string): Promise<number> {
    const context = anonymousContext();
    return this.#run(context, { weight: LIGHT_WEIGHT }, (replica) => replica.countTokens(text, context));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#options.set.close(0);
  }

  #tokenizer(): TextTokenizer {
    return {
      encode: (text, special, context) =>
        this.#run(context, { weight: LIGHT_WEIGHT }, (replica) => replica.encode(text, special, context)),
      decode: (tokens, context) =>
        this.#run(context, { weight: LIGHT_WEIGHT }, (replica) => replica.decode(tokens, context)),
    };
  }

  #embedding(images: boolean): EmbeddingCapability {
    const { name, metrics } = this.#options;
    return {
      embed: async (request, context) => {
        const { inputs } = request;
        checkInputs(inputs, { images });
        const total = inputs.length;
        let vectors: Float32Array | undefined;
        const parts = await this.#runChunks(inputs, context, (replica, { start, end }, own) =>
          replica.embed({ ...request, inputs: inputs.slice(start, end) }, own, (dimensions) => {
            vectors ??= new Float32Array(total * dimensions);
            return vectors.subarray(start * dimensions, end * dimensions);
          }),
        );
        const tokens = parts.flatMap((part) => part.tokens);
        metrics.tokens(name, { input: tokens.reduce((sum, count) => sum + count, 0), output: 0 });
        const dimensions = parts[0]?.dimensions ?? 0;
        return { vectors: vectors ?? new Float32Array(0), dimensions, tokens, truncated: truncatedIn(parts) };
      },
    };
  }

  #rerank(): RerankCapability {
    const { name, metrics } = this.#options;
    return {
      rerank: async (request, context) => {
        const { documents } = request;
        const scores = new Float32Array(documents.length);
        const parts = await this.#runChunks(documents, context, async (replica, { start, end }, own) => {
          const part = await replica.rerank({ ...request, documents: documents.slice(start, end) }, own);
          scores.set(part.scores, start);
          return part;
        });
        // A model that reads the query once for each call read it for each chunk; the client sent it once.
        const repeated = parts.length > 1 ? await this.#queryTokens(request, context) : 0;
        const tokens = parts.reduce((sum, part) => sum + part.tokens - repeated, repeated);
        metrics.tokens(name, { input: tokens, output: 0 });
        return { scores, tokens, truncated: truncatedIn(parts) };
      },
    };
  }

  async #queryTokens(request: RerankRequest, context: CallContext): Promise<number> {
    const call = { ...request, documents: [] };
    const answer = await this.#run(context, { weight: LIGHT_WEIGHT }, (replica) => replica.rerank(call, context));
    return answer.tokens;
  }

  #chat(images: boolean): ChatCapability {
    const { name, metrics, preparation } = this.#options;
    return {
      generate: async (sent, context, sink) => {
        const request = preparation === undefined ? sent : await preparation.prepare(sent, context);
        checkImages(request, { images });
        let begun = false;
        const attempt = async (engine: EngineProcess) => {
          let used: TokenUsage | undefined;
          const counting: GenerationSink = {
            deliver(event) {
              begun = true;
              return sink.deliver(event);
            },
            deliverJson:
              sink.deliverJson &&
              ((text) => {
                begun = true;
                return sink.deliverJson?.(text);
              }),
            used(usage) {
              used = usage;
              sink.used(usage);
            },
          };
          try {
            await engine.generate(request, context, counting);
          } finally {
            metrics.tokens(name, { input: used?.promptTokens ?? 0, output: used?.completionTokens ?? 0 });
          }
        };
        // The client has the first events of an answer that has begun.
        await this.#run(context, { weight: LIGHT_WEIGHT, mayRetry: () => !begun }, attempt);
      },
      countTokens: async (sent, context) => {
        const request = preparation === undefined ? sent : await preparation.prepare(sent, context);
        return this.#run(context, { weight: LIGHT_WEIGHT }, (replica) => replica.countChatTokens(request, context));
      },
      encode: async (sent, context) => {
        const request = preparation === undefined ? sent : await preparation.prepare(sent, context);
        return this.#run(context, { weight: LIGHT_WEIGHT }, (replica) => replica.encodeChat(request, context));
      },
    };
  }

  async #run<T>(context: CallContext, options: RunOptions, call: (replica: EngineProcess) => Promise<T>): Promise<T> {
    const { placement, set } = this.#options;
    for (let attempt = 1; ; attempt += 1) {
      const placed = placement.place(context, options);
      const { replica, release } = placed instanceof Promise ? await placed : placed;
      try {
        const result = await call(replica);
        set.answered(replica);
        return result;
      } catch (error) {
        this.#rethrowUnlessRetried(error, options.mayRetry?.() === false ? Number.POSITIVE_INFINITY : attempt);
      } finally {
        release();
      }
    }
  }

  #rethrowUnlessRetried(error: unknown, attempt: number): void {
    if (!(error instanceof EngineCrash)) throw error;
    const { slug, set } = this.#options;
    if (mayRepeatCall(error.suspect ? 'hang' : 'crash', attempt) && !set.stopped) return;
    throw errors.modelUnavailable(slug, 'its engine stopped while it worked on this request', error);
  }

  /** Runs the chunks of one request; the first failure stops the others. */
  async #runChunks<T>(inputs: readonly EmbeddingInput[], context: CallContext, call: ChunkCall<T>): Promise<T[]> {
    const { name, processes, metrics } = this.#options;
    const chunks = splitInputs(inputs, processes);
    const [only, ...more] = chunks;
    if (only !== undefined && more.length === 0) {
      const answer = this.#run(context, only, (replica) => call(replica, only, context));
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
            return await this.#run(own, { ...chunk, isPart: true }, (replica) => call(replica, chunk, own));
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
}

const truncatedIn = (parts: readonly { truncated?: number | undefined }[]): number =>
  parts.reduce((sum, { truncated = 0 }) => sum + truncated, 0);

const isInline = (url: string): boolean => /^data:/i.test(url);
const NOT_FETCHED = 'This model runs here, where images are not fetched. Send the image as a data URL, or upload it.';

/** Whatever its catalog entry says, a model that runs here takes only what its engine can read. Nothing is fetched for it. */
export function checkInputs(inputs: readonly EmbeddingInput[], { images }: { images: boolean }): void {
  inputs.forEach((input, index) => {
    if (typeof input === 'string' || !('url' in input)) return;
    if (!images) {
      throw errors.unsupportedParameter(
        ['inputs', index],
        'This model runs here and has no encoder for images. Models with `vision` can take them.',
      );
    }
    if (!isInline(input.url)) throw errors.unsupportedParameter(['inputs', index, 'image'], NOT_FETCHED);
  });
}

export function checkImages({ prompt }: ChatRequest, { images }: { images: boolean }): void {
  if (!('messages' in prompt)) return;
  const isRefused = ({ url }: PlacedImage) => !images || !isInline(url);
  const at = prompt.messages.findIndex((message) => message.images?.some(isRefused));
  if (at === -1) return;
  const text = images
    ? NOT_FETCHED
    : 'This model runs here, where images are not supported. Models behind upstreams can take them.';
  throw errors.unsupportedParameter(['messages', at, 'content'], text);
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
