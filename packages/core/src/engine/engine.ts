/**
 * The engine contract. Drivers and the remote engine implement `EngineModel`; services call it and know nothing else. Both
 * sides of the process boundary have the same interface: the host's proxy in the server process, and the driver in the engine
 * process.
 */

import type { UpstreamAttempt } from '../domain/attempts.ts';

/** `low`: of a key that gives way to others under load. */
export type Priority = 'interactive' | 'low' | 'batch';

/** Work of an engine, in tokens. An estimate until the engine has counted them. */
export interface Work {
  tokens: number;
}

export interface CallContext {
  readonly requestId: string;
  /** Fires when the client is gone or a deadline has passed: stop the work at once. */
  readonly signal: AbortSignal;
  /** Cached prefixes and other state made from a prompt never cross accounts. */
  readonly accountId: string;
  /** Waiting requests take turns by account and key. */
  readonly keyId: string;
  readonly priority: Priority;
  /** Under load, accounts share the work by their weights. 1 by default. */
  readonly weight?: number | undefined;
  /** What this call may take. Parts of a request that run as calls of their own have their own. */
  readonly work?: Work | undefined;
  readonly observer?: AttemptObserver | undefined;
}

export interface AttemptObserver {
  /** A call to an upstream has ended. */
  attempted?(attempt: UpstreamAttempt): void;
}

export interface TokenUsage {
  promptTokens: number;
  completionTokens: number;
  /** Those of the prompt tokens that came from a prefix cache. */
  cachedTokens: number;
}

/** One loaded model. A missing capability means "not supported". */
export interface EngineModel extends AsyncDisposable {
  countTokens(text: string): Promise<number>;
  readonly tokenizer?: TextTokenizer;
  readonly embedding?: EmbeddingCapability;
  readonly rerank?: RerankCapability;
  readonly chat?: ChatCapability;
  readonly transcription?: TranscriptionCapability;
  /** Its embeddings take images. */
  readonly images?: true;
  /** Absent: on the processor. */
  readonly device?: ComputeDevice;
}

/** Texts as the tokens of a model, and back. */
export interface TextTokenizer {
  /** `special`: with the tokens that the model puts around a text. */
  encode(text: string, special: boolean, context: CallContext): Promise<readonly number[]>;
  decode(tokens: readonly number[], context: CallContext): Promise<string>;
}

/** On what a loaded model runs. */
export interface ComputeDevice {
  /** `cpu`, or what drives the GPUs, such as `cuda`. */
  backend: string;
  /** Names of the GPUs. */
  names: readonly string[];
  /** Those of the model's layers that are on GPUs. */
  gpuLayers: number;
  layers: number;
  /** Memory of GPUs that it takes. */
  videoBytes: number;
}

/** An engine for one request. Dispose of it when the last answer or the stream has ended. */
export interface EngineLease extends Disposable {
  readonly engine: EngineModel;
  /** Where it runs, unless the result says otherwise. */
  readonly region: string;
  /** It runs here, so what it counts is true. Counts of others are lowered to what is possible and paid. */
  readonly countsAreTrue?: true | undefined;
}

/** Where the lines of batches for a model run, and how they make room for interactive requests there. */
export interface BatchLane {
  /** Models whose engines share processors share a lane. */
  readonly name: string;
  /** How many of the wanted lines may run beside the interactive requests of this moment. */
  most(wanted: number): number;
  /** Interactive requests are delayed by lines, or soon will be. */
  mustYield(): boolean;
  /** How long it takes from a single line back to the most. */
  readonly recoveryMs: number;
}

// --- images ---

export type ImageDetail = 'auto' | 'low' | 'high';

/** Only models whose catalog entry says `vision` get images. */
export interface ImageInput {
  /** A data URL, or an address on a host that the operator allows. */
  url: string;
  detail?: ImageDetail | undefined;
  /** An estimate, for engines that do not report the tokens of a prompt. */
  tokens: number;
}

/** An image of a message. */
export interface PlacedImage extends ImageInput {
  /** How many characters of the message's text come before it. */
  at: number;
}

// --- embedding ---

/** Text, or token ids of this model's own vocabulary, which are taken as they are: engines add special tokens to texts only. */
export type TextInput = string | readonly number[];
export type EmbeddingInput = TextInput | ImageInput;

/** How inputs are cut. Without it, those that are too long are refused. */
export interface Truncation {
  /** Longer inputs are cut to so many tokens, special tokens included. Undefined: to what the model reads at once. */
  maxTokens?: number | undefined;
  /** The side that is cut off. Special tokens, and instructions of the model, stay. */
  side: 'start' | 'end';
}

export interface EmbeddingRequest<Input = EmbeddingInput> {
  inputs: readonly Input[];
  truncation?: Truncation | undefined;
  /** Cut to the leading dimensions and normalised again. */
  dimensions?: number | undefined;
}

export interface EmbeddingResult {
  /** All vectors one after the other, in input order, each of unit length. */
  vectors: Float32Array;
  dimensions: number;
  /** Real tokens of each input, special tokens included, as far as they were read. */
  tokens: readonly number[];
  /** How many inputs were cut. Undefined: none. */
  truncated?: number | undefined;
  /** Set by engines that run in another region than the service. */
  servedRegion?: string | undefined;
}

export interface EmbeddingCapability {
  embed(request: EmbeddingRequest, context: CallContext): Promise<EmbeddingResult>;
}

// --- rerank ---

export interface RerankRequest {
  query: string;
  documents: readonly string[];
  /** With a number of tokens, query and document are read together up to it. Without, engines may read long documents in parts instead. */
  truncation?: Truncation | undefined;
  /** Only the first so many tokens of a document are read. */
  maxDocumentTokens?: number | undefined;
}

export interface RerankResult {
  /** One score in 0–1 for each document, in input order, comparable across calls of one model. */
  scores: Float32Array;
  tokens: number;
  /** How many documents were not read whole, or with a part of the query only. Undefined: none. */
  truncated?: number | undefined;
  servedRegion?: string | undefined;
}

export interface RerankCapability {
  rerank(request: RerankRequest, context: CallContext): Promise<RerankResult>;
}

// --- chat ---

export interface ToolDefinition {
  name: string;
  description?: string | undefined;
  /** JSON Schema of the arguments; absent means an empty object. */
  parameters?: Record<string, unknown> | undefined;
  /** Further fields of the definition, such as `strict`. Upstreams get them as the client sent them. */
  extra?: Readonly<Record<string, unknown>> | undefined;
}

export interface ToolCall {
  id: string;
  name: string;
  /** JSON text, as the model wrote it. */
  arguments: string;
}

export type ChatRole = 'system' | 'user' | 'assistant' | 'tool';

export interface ChatMessage {
  role: ChatRole;
  content: string;
  /** In the order of their places. */
  images?: readonly PlacedImage[] | undefined;
  name?: string | undefined;
  toolCalls?: readonly ToolCall[] | undefined;
  /** On an assistant message: what the model thought before it answered. */
  reasoning?: string | undefined;
  /** On a tool message: which call it answers. */
  toolCallId?: string | undefined;
}

export type ToolChoice = 'none' | 'auto' | 'required' | { name: string };

export type ReasoningEffort = 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max';

export type OutputFormat =
  | { type: 'text' }
  | { type: 'json_object' }
  /** `strict: false`: an upstream may keep to the schema as well as it can. */
  | {
      type: 'json_schema';
      name?: string | undefined;
      schema: Record<string, unknown>;
      strict?: boolean | undefined;
    }
  | Constraint;

/** What an answer has to be, other than JSON. */
export type Constraint =
  /** One of these texts. */
  | { type: 'choice'; texts: readonly string[] }
  /** The whole answer matches. */
  | { type: 'regex'; pattern: string }
  /** In GBNF, as llama.cpp has it. */
  | { type: 'grammar'; grammar: string };

export interface SamplingOptions {
  /** Undefined: as many as fit into the context (or the model's own cap). */
  maxTokens?: number | undefined;
  temperature?: number | undefined;
  topP?: number | undefined;
  seed?: number | undefined;
  stop?: readonly string[] | undefined;
  frequencyPenalty?: number | undefined;
  presencePenalty?: number | undefined;
  /** Only the so many likeliest tokens. */
  topK?: number | undefined;
  /** Only tokens with at least this share of the likeliest one's probability. */
  minP?: number | undefined;
  /** Divides the logits of tokens that occurred before. */
  repetitionPenalty?: number | undefined;
  /** The model cannot end its answer before. */
  minTokens?: number | undefined;
  /** The model cannot end its answer at all. */
  ignoresEnd?: true | undefined;
  /** Token id → bias in -100…100. */
  logitBias?: ReadonlyMap<number, number> | undefined;
  /** Report log probabilities, with this many alternatives for each token. */
  logprobs?: { top: number } | undefined;
}

export interface ChatRequest extends SamplingOptions {
  prompt: { messages: readonly ChatMessage[] } | { text: string } | { tokens: readonly number[] };
  /** The answer begins with the prompt, with log probabilities if they are asked for. */
  echoes?: true | undefined;
  /** Events tell the ids of the tokens. */
  withTokenIds?: true | undefined;
  tools?: readonly ToolDefinition[] | undefined;
  toolChoice?: ToolChoice | undefined;
  parallelToolCalls?: boolean | undefined;
  format?: OutputFormat | undefined;
  /** The answer continues the last message, of the assistant, or follows it without the beginning of an answer. */
  answerStart?: 'continued' | 'none' | undefined;
  /** How much a reasoning model should think. Undefined: as it likes. */
  reasoningEffort?: ReasoningEffort | undefined;
  /** The client gets the answer in one piece when it is complete. Otherwise events are wanted as they come. */
  wholeAnswer?: boolean | undefined;
  /** The client gets the usage so far with each event. */
  countsEach?: true | undefined;
  /** Its tokens have to be known while it is written, also if the client gets it in one piece. */
  counted?: boolean | undefined;
  /** What the driver made of the request before it reached the engine process; only the driver knows its shape. */
  prepared?: unknown;
}

export interface TokenLogprob {
  token: string;
  bytes: readonly number[];
  /** Null: the first token of a prompt, which nothing predicts. */
  logprob: number | null;
  top: readonly { token: string; bytes: readonly number[]; logprob: number }[];
}

/** `tokenIds`: where they are asked for, those of the prompt with the start, and those that were generated since the event before with the others. */
export type ChatEvent = { tokenIds?: readonly number[] } & (
  | { type: 'start'; promptTokens: number; cachedTokens: number }
  | { type: 'text-delta'; text: string; logprobs?: readonly TokenLogprob[] }
  | { type: 'reasoning-delta'; text: string }
  | { type: 'tool-call-delta'; index: number; id?: string; name?: string; argumentsDelta: string }
  /**
   * `stopSequence`: the one of the request that ended the answer, where the engine says so. `stoppedBy`: what else than the length that was
   * asked for has cut it.
   */
  | {
      type: 'end';
      reason: 'stop' | 'length' | 'tool_calls';
      usage: TokenUsage;
      stopSequence?: string;
      stoppedBy?: 'budget';
    }
);

/** Takes the answer of one generation. */
export interface GenerationSink {
  /** The next event waits for the returned promise. What it throws stops the generation. */
  deliver(event: ChatEvent): void | Promise<void>;
  /** The same for a text that an engine has as JSON, so that it is neither parsed nor written anew. Undefined: only events are taken. */
  deliverJson?: ((text: string) => void | Promise<void>) | undefined;
  /**
   * What was used so far. The last report before `generate` settles counts, also when it fails; without one, nothing was used.
   * `servedRegion`: set by engines that run in another region than the service.
   */
  used(usage: TokenUsage, servedRegion?: string): void;
}

export interface ChatCapability {
  /**
   * One choice per call: `n` choices are n calls. Resolves when the sink has taken the `end`. When the signal fires or the sink throws,
   * generation stops within one token, and the promise rejects when nothing more will be delivered or used.
   */
  generate(request: ChatRequest, context: CallContext, sink: GenerationSink): Promise<void>;
  /** The tokens of the prompt as the model would read it, with its template and tools. Undefined: this engine cannot tell. */
  countTokens?(request: ChatRequest, context: CallContext): Promise<number>;
  /** These tokens. */
  encode?(request: ChatRequest, context: CallContext): Promise<readonly number[]>;
}

// --- transcription ---

export interface TranscriptionRequest {
  /** Mono 16 kHz samples of one window of at most 30 s. None: only the options are checked. */
  samples: Float32Array;
  /** ISO 639-1; undefined: detect. */
  language?: string | undefined;
  /** Text that came before, to carry spelling and style over. */
  prompt?: string | undefined;
  temperature?: number | undefined;
  wordTimestamps?: boolean | undefined;
  task?: 'transcribe' | 'translate' | undefined;
}

export interface TranscribedWord {
  word: string;
  startSeconds: number;
  endSeconds: number;
}

export interface TranscribedSegment {
  startSeconds: number;
  endSeconds: number;
  text: string;
  tokens: readonly number[];
  temperature: number;
  averageLogprob: number;
  compressionRatio: number;
  noSpeechProbability: number;
  words?: readonly TranscribedWord[] | undefined;
}

export interface TranscriptionResult {
  language: string;
  segments: readonly TranscribedSegment[];
  servedRegion?: string | undefined;
}

export interface TranscriptionCapability {
  transcribe(request: TranscriptionRequest, context: CallContext): Promise<TranscriptionResult>;
}
