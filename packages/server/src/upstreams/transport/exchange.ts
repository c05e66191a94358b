import type { AnswerHead } from './answer-head.ts';
import type { ConnectionPool, HttpRequest } from './connection-pool.ts';

export interface WholeAnswer {
  status: number;
  headers: AnswerHead['headers'];
  text: string;
}

export interface Exchange {
  /** Rejects with the connection's error or the reason of `abort`. */
  readonly answer: Promise<WholeAnswer>;
  abort(reason: Error): void;
}

export interface ExchangeOptions {
  /** Called when the head of the answer has arrived. */
  onHead?(): void;
  /** Limit for an answer with this status. A longer one is aborted with the error from `tooLong`. */
  maxBytes(status: number): number;
  tooLong(maxBytes: number): Error;
}

/** Sends one request and reads its whole answer. */
export function exchange(
  pool: Pick<ConnectionPool, 'send'>,
  request: HttpRequest,
  { onHead, maxBytes, tooLong }: ExchangeOptions,
): Exchange {
  const { promise: answer, resolve, reject } = Promise.withResolvers<WholeAnswer>();
  let head: AnswerHead | undefined;
  let text: ReturnType<typeof createAnswerText> | undefined;
  let isOver = false;

  const connection = pool.send(request, {
    onHead(arrived) {
      head = arrived;
      text = createAnswerText(arrived, maxBytes(arrived.status));
      onHead?.();
    },
    onBody(bytes, from, to) {
      if (text?.add(bytes.subarray(from, to)) === false) abort(tooLong(text.maxBytes));
    },
    onEnd() {
      isOver = true;
      if (head !== undefined && text !== undefined)
        resolve({ status: head.status, headers: head.headers, text: text.whole() });
    },
    onFailure(error) {
      isOver = true;
      reject(error);
    },
  });

  function abort(reason: Error): void {
    if (!isOver) connection.destroy(reason);
  }
  return { answer, abort };
}

/** Collects the body of an answer. */
function createAnswerText({ framing }: AnswerHead, maxBytes: number) {
  let text = '';
  let length = 0;
  let whole: Buffer | undefined;
  const parts: Buffer[] = [];

  return {
    maxBytes,
    /** Copies the bytes. Returns false if the body is now too long. */
    add(bytes: Buffer): boolean {
      const start = length;
      length += bytes.length;
      if (length > maxBytes || (framing.kind === 'length' && framing.bytes > maxBytes)) return false;
      if (framing.kind !== 'length') parts.push(Buffer.from(bytes));
      // The body nearly always arrives at once: then no copy is needed.
      else if (bytes.length === framing.bytes) text = bytes.toString('utf8');
      else {
        whole ??= Buffer.allocUnsafe(framing.bytes);
        bytes.copy(whole, start);
      }
      return true;
    },
    whole(): string {
      if (parts.length > 0) return Buffer.concat(parts, length).toString('utf8');
      return whole === undefined ? text : whole.toString('utf8');
    },
  };
}
