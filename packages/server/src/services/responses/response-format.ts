import type { ConversationItem, RecordedEvents, StoredResponse } from '@baobab/core/domain/response.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import type { AnswerWriter } from '../../inference/chat.ts';
import type { ChatCommand } from '../../inference/chat-prompt.ts';
import type { NewResponse, ReferredResponses } from './responses.ts';

/** What the use case needs to know of a request. */
export interface ResponseRequest {
  /** Undefined: the client did not say. */
  store: boolean | undefined;
  background: boolean;
  stream: boolean;
  /** A prompt that is too long is tried again without its oldest turns. */
  truncates: boolean;
  previousId: string | undefined;
  conversationId: string | undefined;
}

export interface ResponseHead {
  id: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  /** Whether it is stored, which may differ from what the client asked for. */
  store: boolean;
  conversationId: string | undefined;
}

/** A request with all that it refers to. */
export interface ResponseDraft<Body, Item> {
  head: ResponseHead;
  /** With items in place of references. */
  body: Body;
  /** The items of the conversation so far. */
  before: readonly Item[];
  /** The responses that it continues. */
  ancestors: readonly string[];
}

export interface ResponseWriter<Answer> extends AnswerWriter<Answer> {
  /** Whether the model has begun to answer. */
  readonly hasBegun: boolean;
  /** The sequence number of the last event that was written. */
  readonly lastEvent: number;
  /** Whether there was room to store the response. Call it before `ending`. */
  setStored(isStored: boolean): void;
  /** The last event of the stream, which the client gets when the response is stored. */
  ending(): string;
}

/**
 * How requests, items and answers of responses are written. The use case knows when something is read or written and stores the
 * result as it is; what is in it is known to `http/` alone.
 */
export interface ResponseFormat<Body, Item, Answer> {
  read(body: Body): ResponseRequest;
  /** Everything that was said in stored responses. */
  itemsOf(history: readonly StoredResponse[]): Promise<Item[]>;
  parseItems(items: readonly ConversationItem[]): Promise<Item[]>;
  /** The ids of responses whose items the input refers to. Throws when an id cannot be that of an item. */
  referencesOf(body: Body): string[];
  /** Puts items in place of references. Throws when one does not exist. */
  withReferences(body: Body, referred: ReferredResponses): Promise<Body>;
  /** Throws what the client did wrong. */
  command(draft: ResponseDraft<Body, Item>): ChatCommand;
  /** `lastEvent`: of the stream, if it began when the response was put into the queue. */
  writer(draft: ResponseDraft<Body, Item>, lastEvent?: number): ResponseWriter<Answer>;
  /** A response that waits to be run in the background, and the beginning of its stream. */
  queued(draft: ResponseDraft<Body, Item>): { answer: Answer; events: RecordedEvents };
  failed(draft: ResponseDraft<Body, Item>, error: ApiError): Answer;
  stored(response: StoredResponse): Answer;
  /** The record of a response, and the items for its conversation. */
  record(draft: ResponseDraft<Body, Item>, answer: Answer): Promise<{ record: NewResponse; items: ConversationItem[] }>;
}
