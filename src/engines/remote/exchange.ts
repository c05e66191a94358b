import type { Dispatcher } from 'undici';

type Headers = Dispatcher.ResponseData['headers'];

export interface WholeAnswer {
  status: number;
  headers: Headers;
  text: string;
}

export interface Exchange {
  /** Rejects with what the connection or `abort` said. */
  readonly answer: Promise<WholeAnswer>;
  abort(reason: Error): void;
}

export interface ExchangeOptions {
  /** The head of the answer is there. */
  onBegun(): void;
  /** Of an answer with this status; a longer one is given up, and `tooLong` says why. */
  maxBytes(status: number): number;
  tooLong(maxBytes: number): Error;
}

/**
 * One request and its whole answer. Undici's own `request` makes a stream, listeners and a signal for each answer, which for
 * small ones cost more than all the rest.
 */
export function exchange(
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions,
  { onBegun, maxBytes, tooLong }: ExchangeOptions,
): Exchange {
  const { promise: answer, resolve, reject } = Promise.withResolvers<WholeAnswer>();
  let running: Dispatcher.DispatchController | undefined;
  let givenUp: Error | undefined;
  let status = 0;
  let headers: Headers = {};
  let bytes = 0;
  const chunks: Buffer[] = [];

  const abort = (reason: Error): void => {
    givenUp ??= reason;
    running?.abort(reason);
    // It may still wait for a connection, where undici has nothing to abort yet.
    reject(reason);
  };
  dispatcher.dispatch(request, {
    onRequestStart(controller) {
      running = controller;
      if (givenUp !== undefined) controller.abort(givenUp);
    },
    onResponseStart(_controller, statusCode, head) {
      // 1xx comes before the answer.
      if (statusCode < 200) return;
      status = statusCode;
      headers = head;
      onBegun();
    },
    onResponseData(_controller, chunk) {
      bytes += chunk.length;
      const most = maxBytes(status);
      if (bytes > most) abort(tooLong(most));
      else chunks.push(chunk);
    },
    onResponseEnd() {
      const [only] = chunks;
      const whole = only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks, bytes);
      resolve({ status, headers, text: whole.toString('utf8') });
    },
    onResponseError: (_controller, error) => reject(error),
  });
  return { answer, abort };
}
