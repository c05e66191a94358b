import type { Modality } from '@baobab/core/domain/model.ts';
import type {
  ChatRequest,
  Constraint,
  EmbeddingInput,
  ImageInput,
  RerankRequest,
  ToolChoice,
  ToolDefinition,
} from '@baobab/core/engine/engine.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import type { Embedded } from '../answer-fields.ts';

/** A route of an upstream. */
export interface ServerRoute {
  /** `api`: under the configured base address. `root`: beside its `/v1`, where servers keep their own routes. */
  base: 'api' | 'root';
  route: string;
}

export interface UpstreamRequest extends ServerRoute {
  body: string | Buffer;
  contentType?: string;
  accept?: string;
  /** The answer begins only when it is complete, which may take long while the upstream answers its health checks. */
  answersWhenComplete?: boolean;
  /** A longer answer fails. */
  maxAnswerBytes?: number;
  /** Servers may lack the routes that tell tokens. */
  forTokens?: boolean;
  /** The field that errors about the size of the request name. */
  field: FieldPath;
}

export interface JsonAnswer {
  json: unknown;
  /** Length of its text. */
  characters: number;
  headers: Readonly<Record<string, string>>;
}

type JsonRequest = ServerRoute & { body: string };

/** Sends JSON to a route beside `/v1`, and returns the JSON of the answer. */
export type Ask = (route: string, body: object) => Promise<unknown>;

/**
 * How servers say why they refuse a request. The words of all dialects are looked for in every error, because a gateway or another Baobab
 * passes on those of the server behind it.
 */
export type ErrorWords = Partial<
  Record<
    /** The prompt is longer than the context. */
    | 'tooLong'
    /** What comes before the size of the context. */
    | 'beforeLimit'
    /** What comes before the tokens of the prompt. */
    | 'beforeTokens'
    /** The prompt may fit, but not the answer that was asked for. */
    | 'tooMuchOutput'
    /** The groups `output`, the tokens of the answer that was asked for, and `input`, those of the prompt. */
    | 'bothParts'
    | 'tooManyInputs'
    /** What the model wrote does not follow the format of its template. */
    | 'unparsed'
    /** The server was not started for such requests. */
    | 'unfit'
    | 'noImages'
    | 'noTools'
    | 'noThinking',
    RegExp
  >
>;

export type Reasoning = NonNullable<ChatRequest['reasoningEffort']>;

/** A model in the list of a server. */
export type ListedModel = { id: string } & Readonly<Record<string, unknown>>;

/** What a server says about its model. */
export interface ModelFacts {
  /** Set for servers that list no models. */
  name?: string | undefined;
  modality?: Modality | undefined;
  contextLength?: number | undefined;
  dimensions?: number | undefined;
  vision?: boolean | undefined;
  /** It does not say whether its one model makes vectors, and refuses to unless it was started for it: asking is safe. */
  mayEmbed?: boolean | undefined;
  /** What was assumed, for the operator. */
  notes?: readonly string[] | undefined;
}

/** Gets the JSON object at a route beside `/v1`; undefined unless the server has it. */
export type Probe = (route: string, body?: object) => Promise<Record<string, unknown> | undefined>;

/**
 * Parts of a request that few servers can keep, as fields of its body. A request with a part that its upstream does not have here is
 * refused: left out, it would give another answer. `undefined`: this value of it cannot be kept.
 */
export type ExtraFields = {
  readonly [Name in ExtraName]?: (value: NonNullable<ChatRequest[Name]>) => object | undefined;
};
export const EXTRAS = [
  'answerStart',
  'countsEach',
  'echoes',
  'ignoresEnd',
  'minP',
  'minTokens',
  'repetitionPenalty',
  'topK',
  'withTokenIds',
] as const satisfies readonly (keyof ChatRequest)[];
type ExtraName = (typeof EXTRAS)[number];

/** What is cut. */
export type Cut = Pick<RerankRequest, 'truncation' | 'maxDocumentTokens'>;

/** All that is special about one kind of server. `openai.ts` has what most have in common. */
export interface Dialect {
  /** For `models add`: what a server of this kind says about the model that is added. Undefined: the server is of another kind. */
  readonly recognise:
    | ((probe: Probe, listed: () => Promise<ListedModel>) => Promise<ModelFacts | undefined>)
    | undefined;
  readonly errors: ErrorWords;

  /** Servers without such a route count as alive. */
  readonly health: ServerRoute;
  /** The environment variable from which it takes the key that requests need. */
  readonly keyVariable: string | undefined;
  /** The names that its list of models may have for ours. Undefined: it serves one model, whatever its name. */
  readonly listedNames: ((model: string) => readonly string[]) | undefined;

  /** Counts tokens with every chunk: streamed, an answer that the client cancels is billed exactly, and a hanging engine is noticed early. */
  readonly countsEveryChunk: boolean;
  /** Reports cached tokens only at the end of a stream, so they are estimated for one that is cancelled. */
  readonly countsCachedAtEnd: boolean;
  /** Takes a model's earlier thoughts. */
  readonly takesThoughts: boolean;
  /** Fields of a streamed request. */
  readonly streamFields: object;
  reasoningFields(effort: Reasoning): object;
  readonly accountFields: ((accountId: string) => object) | undefined;
  /** The `response_format` of an answer that may be any JSON object. */
  readonly anyObject: object;
  readonly extras: ExtraFields;
  /** Fields that hold an answer to something other than JSON. Undefined: it cannot be held to that. */
  constraintFields(constraint: Constraint): object | undefined;
  /** The tools that may be called. */
  offeredTools(tools: readonly ToolDefinition[], choice: ToolChoice | undefined): readonly ToolDefinition[];
  toolChoice(choice: ToolChoice | undefined): unknown;
  /** Runs before a chat or a completion is sent. It rejects when that would be answered in part only. */
  readonly beforeChat: ((request: ChatRequest, context: BeforeChat) => Promise<void>) | undefined;

  /** Fields with which it cuts the inputs of embeddings and rankings. Undefined: it cannot cut them so. */
  truncationFields(cut: Cut): object | undefined;
  /** Its answers tell how many it has cut. */
  readonly countsTruncated: boolean;

  /** How many inputs it takes in one call, until it says less. */
  readonly inputsPerCall: number;
  /** `extra`: fields of `truncationFields`. */
  embeddingRequest(inputs: readonly EmbeddingInput[], model: string, extra?: object): JsonRequest;
  /** Undefined: it takes no images. */
  readonly imageRequest: ((image: ImageInput, model: string) => JsonRequest) | undefined;
  /** Undefined if the answer is not what was asked for. */
  readEmbeddings(answer: JsonAnswer, count: number): Embedded | undefined;

  rerankRequest(request: RerankRequest, model: string, extra?: object): JsonRequest;
  /** Its rerank scores are logits, not probabilities. */
  readonly givesRawScores: boolean;

  /** `json`: it tells neither segments nor the language. */
  readonly transcriptionFormat: 'verbose_json' | 'json';
  /** Parts of a transcription that it would ignore: a request with one is refused. */
  readonly unkeptInTranscription: readonly ('temperature' | 'wordTimestamps')[];
  /** It has a route that translates audio into English. */
  readonly translatesAudio: boolean;

  /** Counts the tokens of each text, special tokens included. Resolves with undefined if the answer is not a count. */
  readonly countTexts:
    | ((texts: readonly string[], model: string, ask: Ask) => Promise<number[] | undefined>)
    | undefined;
  /** Texts as tokens, and back. Undefined: it has no route for that. */
  readonly tokenizer: DialectTokenizer | undefined;
  /** Counts the tokens of a chat as its template writes it. */
  readonly countChat: ((request: CountedChat, model: string, ask: Ask) => Promise<number | undefined>) | undefined;
}

/** Each resolves with undefined if the answer is not what was asked for. */
export interface DialectTokenizer {
  encode(text: string, special: boolean, of: AskedModel): Promise<number[] | undefined>;
  encodeChat(request: CountedChat & Pick<ChatRequest, 'answerStart'>, of: AskedModel): Promise<number[] | undefined>;
  decode(tokens: readonly number[], of: AskedModel): Promise<string | undefined>;
}

export interface AskedModel {
  model: string;
  ask: Ask;
}

export interface BeforeChat {
  model: string;
  contextLength: number;
  field: FieldPath;
  send(request: UpstreamRequest): Promise<JsonAnswer>;
}

export interface CountedChat {
  messages: Extract<ChatRequest['prompt'], { messages: unknown }>['messages'];
  tools: readonly ToolDefinition[];
}
