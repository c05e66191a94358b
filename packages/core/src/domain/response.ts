export const RESPONSE_STATUSES = ['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled'] as const;
export type ResponseStatus = (typeof RESPONSE_STATUSES)[number];

/** How a response ended. */
export type ResponseOutcome = Exclude<ResponseStatus, 'queued' | 'in_progress'>;

/** Statuses of background responses that still need work. */
const ACTIVE_RESPONSES = ['queued', 'in_progress'] as const satisfies readonly ResponseStatus[];

export const isActiveResponse = (status: ResponseStatus): boolean =>
  (ACTIVE_RESPONSES as readonly string[]).includes(status);

/** A response that is kept. Its input and its content are JSON, written and read by `http/` alone. */
export interface StoredResponse {
  id: string;
  accountId: string;
  /** A background response runs with the rights and limits of this key. */
  keyId: string;
  /** The response that it continues. */
  previousId: string | null;
  conversationId: string | null;
  status: ResponseStatus;
  background: boolean;
  /** Milliseconds since 1970, like `expiresAt`. */
  createdAt: number;
  expiresAt: number;
  /** The items of its own input, not those of the responses before it. */
  input: string;
  content: string;
}

/** A background response that has not ended. */
export interface PendingResponse extends StoredResponse {
  /** The request, JSON. */
  request: string;
  /** How often its work was begun. */
  attempts: number;
}

/** Events of the stream of a background response, recorded while it runs. */
export interface RecordedEvents {
  /** Sequence numbers of the first and the last of them. */
  first: number;
  last: number;
  /** Their texts as they are sent, one after the other. */
  content: string;
}

export interface Conversation {
  id: string;
  accountId: string;
  metadata: Readonly<Record<string, string>>;
  createdAt: number;
  expiresAt: number;
}

/** One item of a conversation: JSON, written and read by `http/` alone. */
export interface ConversationItem {
  id: string;
  content: string;
}
