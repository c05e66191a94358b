import type { ChatEvent } from '@baobab/core/engine/engine.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import type { JsonAnswer } from '../dialects/dialect.ts';
import type { UpstreamCall } from '../routing/upstream-call.ts';
import { createSseReader, type SseReader } from '../transport/sse.ts';
import type { StreamedAnswer } from '../transport/stream.ts';
import type { ChatChunks } from './answer.ts';

export interface ChatReader {
  readonly chunks: ChatChunks;
  /** Returns the next events as soon as there are any, or undefined at the end. Does not read ahead. */
  read(): ChatEvent[] | undefined | Promise<ChatEvent[] | undefined>;
  /**
   * Hands over events as they arrive, until `take` returns false or none come without a `read`, which must follow. The next ones wait for
   * the promise of `take`.
   */
  deliver(take: TakeEvents): Promise<void>;
  /** Keeps the connection after a whole answer, otherwise closes it. */
  close(): void;
}

export type TakeEvents = (events: ChatEvent[]) => boolean | Promise<boolean>;

/** For an answer that is one piece of JSON. */
const MAX_ANSWER_LENGTH = 16 * 1024 * 1024;

export interface ChatReaderOptions {
  call: UpstreamCall;
  field: FieldPath;
  chunks: ChatChunks;
}

/** For an answer that arrives in one piece. */
export function createWholeReader(
  { json, characters }: JsonAnswer,
  { call, field, chunks }: ChatReaderOptions,
): ChatReader {
  let isRead = false;
  const read = (): ChatEvent[] | undefined => {
    if (isRead) return undefined;
    isRead = true;
    const out: ChatEvent[] = [];
    const reported = chunks.readWhole(json, characters, out);
    if (reported !== undefined) throw call.reported(statusOf(reported), reported, field);
    if (chunks.reason === undefined) throw call.malformed('the answer has no choice that ended');
    return out;
  };
  return {
    chunks,
    read,
    deliver: async () => {},
    close() {},
  };
}

/** For an answer that is read as it arrives. */
export const createStreamReader = (answer: StreamedAnswer, options: ChatReaderOptions): ChatReader =>
  new StreamReader(answer, options);

/** A class, as the answer itself: an object with a closure for every method would be several times as large. */
class StreamReader implements ChatReader {
  readonly chunks: ChatChunks;
  readonly #answer: StreamedAnswer;
  readonly #call: UpstreamCall;
  readonly #field: FieldPath;
  /** An upstream that cannot stream answers with plain JSON. */
  readonly #isWhole: boolean;
  readonly #source: SseReader;
  #atEnd = false;
  /** Events were handed over. Before, another upstream may still take over. */
  #hasBegun = false;
  /** Thrown by the next read: the events that came with it go first. */
  #failure: Error | undefined;

  constructor(answer: StreamedAnswer, { call, field, chunks }: ChatReaderOptions) {
    this.chunks = chunks;
    this.#answer = answer;
    this.#call = call;
    this.#field = field;
    this.#isWhole = String(answer.headers['content-type']).startsWith('application/json');
    this.#source = this.#isWhole ? wholeBody() : createSseReader();
  }

  async read(): Promise<ChatEvent[] | undefined> {
    const { chunks } = this;
    const out: ChatEvent[] = [];
    if (this.#failure !== undefined) throw this.#failure;
    try {
      while (out.length === 0 && !this.#atEnd && !chunks.done) {
        const next = this.#answer.read();
        this.#take(next instanceof Promise ? await next : next, out);
      }
    } catch (error) {
      this.#failAfter(out, error);
    }
    this.#hasBegun = true;
    if (out.length > 0) return out;
    if (chunks.reason === undefined && !chunks.done) throw this.#call.malformed('the answer ended too early');
    return undefined;
  }

  // Not an async function: its frame would stay in memory as long as the stream is open.
  deliver(take: TakeEvents): Promise<void> {
    const { chunks } = this;
    if (this.#atEnd || chunks.done) return Promise.resolve();
    // Runs for every token, in the same turn of the event loop as the read of the socket.
    return this.#answer.deliver((text) => {
      const events = this.#eventsOf(text);
      const isWanted = events.length === 0 || take(events);
      const mayContinue = () => !chunks.done && this.#failure === undefined;
      return isWanted instanceof Promise ? isWanted.then((more) => more && mayContinue()) : isWanted && mayContinue();
    });
  }

  close(): void {
    if (this.#atEnd) return;
    if (this.chunks.done) this.#answer.drain();
    else this.#answer.abort();
  }

  #eventsOf(text: string): ChatEvent[] {
    const out: ChatEvent[] = [];
    try {
      this.#take(text, out);
    } catch (error) {
      this.#failAfter(out, error);
    }
    return out;
  }

  /**
   * Throws at once if no events came before the failure, or if they are the first and another upstream can write the whole answer. What
   * cannot be parsed is not asked for again.
   */
  #failAfter(out: readonly ChatEvent[], error: unknown): void {
    const failure = this.#call.failureOf(error);
    if (out.length === 0 || (!this.#hasBegun && failure.kind !== 'unparsed')) throw failure;
    this.#failure = failure;
  }

  /** Adds the events that this text completes. */
  #take(text: string | undefined, out: ChatEvent[]): void {
    this.#call.answerBegan();
    this.#atEnd = text === undefined;
    for (const payload of text === undefined ? this.#source.end() : this.#source.push(text)) {
      const reported = this.#parse(payload, out);
      if (reported !== undefined) throw this.#call.reported(statusOf(reported), reported, this.#field);
    }
  }

  #parse(payload: string, out: ChatEvent[]): unknown {
    try {
      return this.#isWhole
        ? this.chunks.readWhole(JSON.parse(payload), payload.length, out)
        : this.chunks.read(payload, out);
    } catch (error) {
      // The text of a SyntaxError quotes the chunk.
      const problem = error instanceof SyntaxError ? 'not JSON' : String(error);
      throw this.#call.malformed(`a chunk cannot be read: ${problem}`);
    }
  }
}

/** The HTTP status that fits an error inside a stream. */
function statusOf(reported: unknown): number {
  const text = JSON.stringify(reported);
  const code = Number(/"(?:code|status)":"?(\d{3})\b/.exec(text)?.[1]);
  if (code >= 400 && code < 600) return code;
  return /invalid_request_error|BadRequest|validation/i.test(text) ? 400 : 500;
}

function wholeBody(): SseReader {
  let whole = '';
  return {
    push(text: string): string[] {
      whole += text;
      if (whole.length > MAX_ANSWER_LENGTH) throw new Error(`an answer is longer than ${MAX_ANSWER_LENGTH} characters`);
      return [];
    },
    end: (): string[] => [whole],
  };
}
