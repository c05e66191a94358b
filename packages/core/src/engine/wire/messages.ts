import { ApiError } from '../../errors/api-error.ts';
import type { Field, FieldText } from '../../errors/fields.ts';
import type { ErrorCode } from '../../errors/kinds.ts';
import type { LoadSpec } from '../driver.ts';
import type {
  CallContext,
  ChatEvent,
  ChatRequest,
  ComputeDevice,
  EmbeddingRequest,
  RerankRequest,
  TextInput,
  TokenUsage,
} from '../engine.ts';
import type { WireImage } from './image-urls.ts';
import type { LongText } from './long-texts.ts';

/** Messages between the server and an engine process. Both ends are of one build, so there is no version. */

export const CAPABILITIES = ['tokenizer', 'embedding', 'rerank', 'chat', 'transcription', 'images'] as const;
export type CapabilityName = (typeof CAPABILITIES)[number];

export type WireContext = Omit<CallContext, 'signal'>;

/** JSON has no maps. */
export type WireChatRequest = Omit<ChatRequest, 'logitBias'> & { logitBias?: readonly (readonly [number, number])[] };

export type CallBody =
  /**
   * Texts are the body, cut by their byte lengths. A request with token ids or images travels in the header, but for the data URLs of its
   * images, which are the body then.
   */
  | ({
      method: 'embed';
      inputs: readonly (TextInput | WireImage)[] | null;
      byteLengths: readonly number[];
    } & Omit<EmbeddingRequest, 'inputs'>)
  /** The first text is the query. */
  | ({ method: 'rerank'; byteLengths: readonly number[] } & Omit<RerankRequest, 'query' | 'documents'>)
  /** Long texts of the prompt are the body. */
  | { method: 'generate'; request: WireChatRequest; longTexts: readonly LongText[]; credit: number }
  /** The samples are the body. */
  | {
      method: 'transcribe';
      language?: string | undefined;
      prompt?: string | undefined;
      temperature?: number | undefined;
      wordTimestamps?: boolean | undefined;
      task?: 'transcribe' | 'translate' | undefined;
    }
  | { method: 'countTokens'; text: string }
  /** The text is the body. */
  | { method: 'encode'; byteLengths: readonly number[]; special: boolean }
  | { method: 'decode'; tokens: readonly number[] }
  | { method: 'encodeChat'; request: WireChatRequest; longTexts: readonly LongText[] }
  | { method: 'countChatTokens'; request: WireChatRequest; longTexts: readonly LongText[] };

export type ToEngine =
  /** `module`: address of the driver's module. */
  | { type: 'load'; spec: LoadSpec; module: string; heartbeatMs: number }
  | { type: 'call'; id: number; context: WireContext; call: CallBody }
  | { type: 'cancel'; id: number }
  /** The consumer took this many events of a stream. */
  | { type: 'credit'; id: number; count: number }
  | { type: 'close' };

export type WireError =
  | {
      kind: 'api';
      code: ErrorCode;
      text: string | FieldText;
      field?: Field | undefined;
      retryAfterSeconds?: number | undefined;
      shouldRetry?: boolean | undefined;
      /** Message of the cause, for operators. */
      cause?: string | undefined;
    }
  | { kind: 'other'; message: string; stack?: string | undefined };

export type FromEngine =
  | { type: 'ready'; capabilities: readonly CapabilityName[]; loadMs: number; device: ComputeDevice | undefined }
  | { type: 'failed'; error: WireError }
  /** Vectors and scores are the body. */
  | { type: 'result'; id: number; value: unknown }
  | { type: 'event'; id: number; event: ChatEvent; usage: TokenUsage }
  | { type: 'end'; id: number; usage: TokenUsage }
  | { type: 'error'; id: number; error: WireError; usage?: TokenUsage }
  /** `cpuMs`: processor time since the process began; a busy process that uses none is stuck. */
  | { type: 'heartbeat'; residentBytes: number; cpuMs: number };

export function toWireError(error: unknown): WireError {
  if (error instanceof ApiError) {
    const { code, text, field, retryAfterSeconds, shouldRetry } = error;
    const cause = error.cause instanceof Error ? error.cause.message : undefined;
    return { kind: 'api', code, text, field, retryAfterSeconds, shouldRetry, cause };
  }
  if (error instanceof Error) return { kind: 'other', message: error.message, stack: error.stack };
  return { kind: 'other', message: String(error) };
}

export function fromWireError(wire: WireError): Error {
  if (wire.kind === 'api') {
    const { code, text, field, retryAfterSeconds, shouldRetry } = wire;
    const cause = wire.cause === undefined ? undefined : new Error(wire.cause);
    return new ApiError(code, text, { field, retryAfterSeconds, shouldRetry, cause });
  }
  const error = new Error(wire.message);
  if (wire.stack !== undefined) error.stack = wire.stack;
  return error;
}

export function packTexts(texts: readonly string[]): { byteLengths: number[]; body: Buffer } {
  const byteLengths = texts.map((text) => Buffer.byteLength(text));
  const body = Buffer.allocUnsafe(byteLengths.reduce((sum, length) => sum + length, 0));
  let offset = 0;
  for (const text of texts) offset += body.write(text, offset);
  return { byteLengths, body };
}

export function unpackTexts(byteLengths: readonly number[], body: Uint8Array): string[] {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  let end = 0;
  return byteLengths.map((length) => {
    const start = end;
    end += length;
    return bytes.toString('utf8', start, end);
  });
}

export const bytesOf = (array: Float32Array): Uint8Array =>
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/** A view where the bytes are aligned, otherwise a copy. */
export function floatsOf(bytes: Uint8Array): Float32Array {
  if (bytes.byteOffset % 4 === 0) return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  return new Float32Array(bytes.slice().buffer);
}
