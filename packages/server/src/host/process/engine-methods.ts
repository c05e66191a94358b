import type {
  CallContext,
  ChatRequest,
  EmbeddingRequest,
  EmbeddingResult,
  GenerationSink,
  RerankRequest,
  RerankResult,
  TranscriptionRequest,
  TranscriptionResult,
} from '@baobab/core/engine/engine.ts';
import { splitImages } from '@baobab/core/engine/wire/image-urls.ts';
import { splitPrompt } from '@baobab/core/engine/wire/long-texts.ts';
import { bytesOf, type CallBody, floatsOf, packTexts } from '@baobab/core/engine/wire/messages.ts';
import { GenerationStream, STREAM_CREDIT } from './generation-stream.ts';
import type { PendingCall, PendingCalls } from './pending-calls.ts';

/** Returns the part of the request's own result buffer that an answer belongs to. */
export type VectorBuffer = (dimensions: number) => Float32Array;

/** What an engine process can be asked. */
export interface EngineMethods {
  embed(request: EmbeddingRequest, context: CallContext, bufferFor?: VectorBuffer): Promise<EmbeddingResult>;
  rerank(request: RerankRequest, context: CallContext): Promise<RerankResult>;
  generate(request: ChatRequest, context: CallContext, sink: GenerationSink): Promise<void>;
  transcribe(request: TranscriptionRequest, context: CallContext): Promise<TranscriptionResult>;
  countTokens(text: string, context: CallContext): Promise<number>;
  countChatTokens(request: ChatRequest, context: CallContext): Promise<number>;
}

/** Turns each method into a frame, and the frame of the answer into its result. */
export function createEngineMethods(calls: PendingCalls): EngineMethods {
  return {
    async embed({ inputs, dimensions }, context, bufferFor) {
      const sent = inputs.every((input) => typeof input === 'string')
        ? { inputs: null, ...packTexts(inputs) }
        : await splitImages(inputs);
      const call: CallBody = { method: 'embed', inputs: sent.inputs, byteLengths: sent.byteLengths, dimensions };
      const { value, body } = await calls.request(call, context, {
        payload: sent.body,
        bufferFor: bufferFor && ((header) => bytesOf(bufferFor((header as EmbeddingResult).dimensions))),
      });
      return { ...(value as Omit<EmbeddingResult, 'vectors'>), vectors: floatsOf(body) };
    },

    async rerank({ query, documents }, context) {
      const { byteLengths, body: payload } = packTexts([query, ...documents]);
      const { value, body } = await calls.request({ method: 'rerank', byteLengths }, context, { payload });
      return { ...(value as Omit<RerankResult, 'scores'>), scores: floatsOf(body) };
    },

    generate({ logitBias, ...rest }, context, sink) {
      const stream = new GenerationStream(context, sink);
      return stream.run(async () => {
        const split = await splitPrompt(rest.prompt);
        const bias = logitBias === undefined ? {} : { logitBias: [...logitBias] };
        const request = { ...rest, ...bias, prompt: split?.prompt ?? rest.prompt };
        const { longTexts = [], body } = split ?? {};
        const call: CallBody = { method: 'generate', request, longTexts, credit: STREAM_CREDIT };
        const entry: PendingCall = {
          onResult: () => stream.onEnd(),
          onError: (error) => stream.onError(error),
          stream,
        };
        const id = await calls.send(call, context, entry, body);
        return { cancel: () => calls.cancel(id), credit: (count) => calls.credit(id, count) };
      });
    },

    async transcribe({ samples, ...rest }, context) {
      const { value } = await calls.request({ method: 'transcribe', ...rest }, context, { payload: bytesOf(samples) });
      return value as TranscriptionResult;
    },

    async countTokens(text, context) {
      const { value } = await calls.request({ method: 'countTokens', text }, context);
      return value as number;
    },

    async countChatTokens({ logitBias: _, ...rest }, context) {
      const split = await splitPrompt(rest.prompt);
      const request = { ...rest, prompt: split?.prompt ?? rest.prompt };
      const call: CallBody = { method: 'countChatTokens', request, longTexts: split?.longTexts ?? [] };
      const { value } = await calls.request(call, context, split && { payload: split.body });
      return value as number;
    },
  };
}
