import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { type TurnShare, turnShares } from '@baobab/core/runtime/turn-shares.ts';
import type { JsonAnswer } from '../dialects/dialect.ts';
import type { UpstreamCall } from '../routing/upstream-call.ts';
import { SseReader } from '../transport/sse.ts';
import type { StreamedAnswer } from '../transport/stream.ts';
import type { AnswerPiece, ChatChunks } from './answer.ts';

export interface ChatReader {
  readonly chunks: ChatChunks;
  /** The first pieces, as soon as there are any: until then another upstream may take over. None: the answer has ended. */
  first(): Promise<readonly AnswerPiece[]>;
  /** Hands over all others as they arrive, until `take` returns false. The next ones wait for the promise of `take`. */
  deliver(take: TakePieces): Promise<void>;
  /** Keeps the connection after a whole answer, otherwise closes it. */
  close(): void;
}

type TakePieces = (pieces: readonly AnswerPiece[]) => boolean | Promise<boolean>;

/** For an answer that is one piece of JSON. */
const MAX_ANSWER_LENGTH = 16 * 1024 * 1024;

export interface ChatReaderOptions {
  call: UpstreamCall;
  share: TurnShare;
  field: FieldPath;
  chunks: ChatChunks;
}

/** An answer that arrived in one piece. */
export class WholeReader implements ChatReader {
  readonly chunks: ChatChunks;
  readonly #events: AnswerPiece[] = [];

  constructor({ json, characters }: JsonAnswer, { call, field, chunks }: Omit<ChatReaderOptions, 'share'>) {
    this.chunks = chunks;
    const reported = chunks.readWhole(json, characters, this.#events);
    if (reported !== undefined) throw call.reported(statusOf(reported), reported, field);
    if (chunks.reason === undefined) throw call.malformed('the answer has no choice that ended');
  }

  async first(): Promise<readonly AnswerPiece[]> {
    return this.#events;
  }

  async deliver(): Promise<void> {}

  close(): void {}
}

/** An answer that is read as it arrives. A class, as the answer itself: an object with a closure for every method would be several times as large. */
export class StreamReader implements ChatReader {
  readonly chunks: ChatChunks;
  readonly #answer: StreamedAnswer;
  readonly #call: UpstreamCall;
  readonly #share: TurnShare;
  readonly #field: FieldPath;
  /** An upstream that cannot stream answers with plain JSON. */
  readonly #isWhole: boolean;
  readonly #source: Pick<SseReader, 'push' | 'end'>;
  #atEnd = false;
  /** Events were handed over. Before, another upstream may still take over. */
  #hasBegun = false;
  /** Thrown at the end: the events that came with it go first. */
  #failure: Error | undefined;

  constructor(answer: StreamedAnswer, { call, share, field, chunks }: ChatReaderOptions) {
    this.chunks = chunks;
    this.#answer = answer;
    this.#call = call;
    this.#share = share;
    this.#field = field;
    this.#isWhole = String(answer.headers['content-type']).startsWith('application/json');
    this.#source = this.#isWhole ? wholeBody() : new SseReader();
  }

  async first(): Promise<readonly AnswerPiece[]> {
    const pieces = await this.#next();
    this.#hasBegun = true;
    if (pieces.length === 0) this.#checkEnd();
    return pieces;
  }

  // Not an async function: its frame would stay in memory as long as the stream is open.
  deliver(take: TakePieces): Promise<void> {
    let isWanted = true;
    const mayContinue = (more: boolean): boolean => {
      isWanted = more;
      return more && this.#hasMore;
    };
    // Runs for every token, in the same turn of the event loop as the read of the socket.
    const takeText = (text: string): boolean | Promise<boolean> => {
      const pieces = this.#piecesOf(text);
      const more = pieces.length === 0 || take(pieces);
      return more instanceof Promise ? more.then(mayContinue) : mayContinue(more);
    };
    const delivered = this.#hasMore
      ? this.#answer.deliver((text) => turnShares.run(this.#share, () => takeText(text)))
      : Promise.resolve();
    return delivered.then(() => (isWanted ? this.#finish(take) : undefined));
  }

  close(): void {
    if (this.#atEnd) return;
    if (this.chunks.done) this.#answer.drain();
    else this.#answer.abort();
  }

  get #hasMore(): boolean {
    return !this.#atEnd && !this.chunks.done && this.#failure === undefined;
  }

  /** What came at the end without a line break behind it, or the reason why the answer broke off. */
  async #finish(take: TakePieces): Promise<void> {
    const pieces = await this.#next();
    if (pieces.length === 0 || (await take(pieces))) this.#checkEnd();
  }

  #checkEnd(): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.chunks.reason === undefined && !this.chunks.done) throw this.#call.malformed('the answer ended too early');
  }

  /** None: at the end. */
  async #next(): Promise<readonly AnswerPiece[]> {
    let pieces: readonly AnswerPiece[] = [];
    while (pieces.length === 0 && this.#hasMore) {
      let text: string | undefined;
      try {
        const next = this.#answer.read();
        text = next instanceof Promise ? await next : next;
      } catch (error) {
        throw this.#call.failureOf(error);
      }
      pieces = await turnShares.run(this.#share, () => this.#piecesOf(text));
    }
    return pieces;
  }

  #piecesOf(text: string | undefined): readonly AnswerPiece[] {
    const out: AnswerPiece[] = [];
    try {
      this.#take(text, out);
    } catch (error) {
      this.#failAfter(out, error);
    }
    return out;
  }

  /**
   * Throws at once if nothing came before the failure, or if they are the first and another upstream can write the whole answer. What
   * cannot be parsed is not asked for again.
   */
  #failAfter(out: readonly AnswerPiece[], error: unknown): void {
    const failure = this.#call.failureOf(error);
    if (out.length === 0 || (!this.#hasBegun && failure.kind !== 'unparsed')) throw failure;
    this.#failure = failure;
  }

  /** Adds what this text completes. */
  #take(text: string | undefined, out: AnswerPiece[]): void {
    this.#call.answerBegan();
    this.#atEnd = text === undefined;
    for (const payload of text === undefined ? this.#source.end() : this.#source.push(text)) {
      const reported = this.#parse(payload, out);
      if (reported !== undefined) throw this.#call.reported(statusOf(reported), reported, this.#field);
    }
  }

  #parse(payload: string, out: AnswerPiece[]): unknown {
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

function wholeBody(): Pick<SseReader, 'push' | 'end'> {
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
