import type {
  CallContext,
  ChatCapability,
  ChatRequest,
  EmbeddingCapability,
  EmbeddingInput,
  EngineModel,
  GenerationSink,
  RerankCapability,
  TokenUsage,
} from '@baobab/core/engine/engine.ts';
import type { CapabilityName } from '@baobab/core/engine/wire/messages.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { EngineMetrics } from '../metrics.ts';
import type { EngineProcess } from '../process/engine-process.ts';
import type { Dispatcher } from './dispatcher.ts';
import { EXCLUSIVE_WEIGHT, LIGHT_WEIGHT } from './placement.ts';

interface ReplicatedEngineOptions {
  /** `slug@version`, for metrics. */
  name: string;
  capabilities: readonly CapabilityName[];
  dispatcher: Dispatcher;
  metrics: EngineMetrics;
  close(): Promise<void>;
}

/** For calls that belong to no request. A new one each time: calls of one context wait in one line. */
const anonymousContext = (): CallContext => ({
  requestId: '',
  accountId: '',
  keyId: '',
  priority: 'interactive',
  signal: new AbortController().signal,
});

/** The processes of one model as one `EngineModel`. */
export function createReplicatedEngine(options: ReplicatedEngineOptions): EngineModel {
  const { dispatcher } = options;
  const has = (capability: CapabilityName) => options.capabilities.includes(capability);
  return {
    countTokens(text) {
      const context = anonymousContext();
      return dispatcher.run(context, { weight: LIGHT_WEIGHT }, (replica) => replica.countTokens(text, context));
    },
    ...(has('embedding') && { embedding: createEmbedding(options) }),
    ...(has('rerank') && { rerank: createRerank(options) }),
    ...(has('chat') && { chat: createChat(options) }),
    ...(has('transcription') && {
      transcription: {
        transcribe: (request, context) =>
          dispatcher.run(context, { weight: EXCLUSIVE_WEIGHT }, (replica) => replica.transcribe(request, context)),
      },
    }),
    [Symbol.asyncDispose]: options.close,
  };
}

function createEmbedding({ name, dispatcher, metrics, capabilities }: ReplicatedEngineOptions): EmbeddingCapability {
  const images = capabilities.includes('images');
  return {
    async embed(request, context) {
      const { inputs } = request;
      checkInputs(inputs, { images });
      const total = inputs.length;
      let vectors: Float32Array | undefined;
      const parts = await dispatcher.runChunks(inputs, context, (replica, { start, end }, own) =>
        replica.embed({ ...request, inputs: inputs.slice(start, end) }, own, (dimensions) => {
          vectors ??= new Float32Array(total * dimensions);
          return vectors.subarray(start * dimensions, end * dimensions);
        }),
      );
      const tokens = parts.flatMap((part) => part.tokens);
      metrics.tokens(name, { input: tokens.reduce((sum, count) => sum + count, 0), output: 0 });
      return { vectors: vectors ?? new Float32Array(0), dimensions: parts[0]?.dimensions ?? 0, tokens };
    },
  };
}

function createRerank({ name, dispatcher, metrics }: ReplicatedEngineOptions): RerankCapability {
  async function queryTokens(query: string, context: CallContext): Promise<number> {
    const call = { query, documents: [] };
    return (await dispatcher.run(context, { weight: LIGHT_WEIGHT }, (replica) => replica.rerank(call, context))).tokens;
  }

  return {
    async rerank({ query, documents }, context) {
      const scores = new Float32Array(documents.length);
      const parts = await dispatcher.runChunks(documents, context, async (replica, { start, end }, own) => {
        const part = await replica.rerank({ query, documents: documents.slice(start, end) }, own);
        scores.set(part.scores, start);
        return part;
      });
      // A model that reads the query once for each call read it for each chunk; the client sent it once.
      const repeated = parts.length > 1 ? await queryTokens(query, context) : 0;
      const tokens = parts.reduce((sum, part) => sum + part.tokens - repeated, repeated);
      metrics.tokens(name, { input: tokens, output: 0 });
      return { scores, tokens };
    },
  };
}

function createChat({ name, dispatcher, metrics }: ReplicatedEngineOptions): ChatCapability {
  return {
    async generate(request, context, sink) {
      refuseImages(request);
      let begun = false;
      const attempt = async (engine: EngineProcess) => {
        let used: TokenUsage | undefined;
        const counting: GenerationSink = {
          deliver(event) {
            begun = true;
            return sink.deliver(event);
          },
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
      await dispatcher.run(context, { weight: LIGHT_WEIGHT, mayRetry: () => !begun }, attempt);
    },
    countTokens: (request, context) =>
      dispatcher.run(context, { weight: LIGHT_WEIGHT }, (replica) => replica.countChatTokens(request, context)),
  };
}

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
    if (!/^data:/i.test(input.url)) {
      throw errors.unsupportedParameter(
        ['inputs', index, 'image'],
        'This model runs here, where images are not fetched. Send the image as a data URL, or upload it.',
      );
    }
  });
}

export function refuseImages({ prompt }: ChatRequest): void {
  const at = 'messages' in prompt ? prompt.messages.findIndex(({ images = [] }) => images.length > 0) : -1;
  if (at === -1) return;
  throw errors.unsupportedParameter(
    ['messages', at, 'content'],
    'This model runs here, where images are not supported. Models behind upstreams can take them.',
  );
}
