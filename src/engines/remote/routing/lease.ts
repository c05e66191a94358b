import type { Dispatcher } from 'undici';
import { cancellation } from '../../../errors/cancellation.ts';
import { errors } from '../../../errors/errors.ts';
import type { CallContext } from '../../engine.ts';
import {
  type FailureScope,
  failureFromAnswer,
  failureFromTransport,
  malformedAnswer,
  UpstreamFailure,
} from '../failure.ts';
import { READ_AHEAD_BYTES, type Upstream } from './upstream.ts';

export interface LeaseRequest {
  base: 'api' | 'root';
  route: string;
  body: string | Buffer;
  contentType?: string;
  accept?: string;
  scope: FailureScope;
}

/** One place at one address, for one attempt. */
export interface Lease {
  readonly upstream: Upstream;
  /** Sends and waits for a good status; anything else is thrown as an `UpstreamFailure`. */
  send(request: LeaseRequest): Promise<Dispatcher.ResponseData>;
  sendForJson(request: LeaseRequest): Promise<{ json: unknown; headers: Dispatcher.ResponseData['headers'] }>;
  /** The answer has begun: from now on only the total time counts. */
  begun(): void;
  /** Turns whatever was thrown while the answer was read into what really happened. */
  explain(error: unknown): UpstreamFailure;
  /** Gives the place back; a failure counts against the address. Only the first call counts. */
  release(failure?: UpstreamFailure): void;
}

const MAX_ERROR_BYTES = 64 * 1024;
/** Node takes longer ones for a millisecond. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** 2048 vectors of 4096 numbers in base64 are 45 MB. */
const MAX_JSON_BYTES = 256 * 1024 * 1024;

export interface LeaseDependencies {
  upstream: Upstream;
  context: CallContext;
  slug: string;
  onRelease(failure: UpstreamFailure | undefined): void;
}

export function createLease({ upstream, context, slug, onRelease }: LeaseDependencies): Lease {
  const { firstByteTimeoutMs, totalTimeoutMs } = upstream.settings;
  const totalDueAt = performance.now() + totalTimeoutMs;
  /** While an answer has not begun. */
  let firstByteDueAt = Number.POSITIVE_INFINITY;
  let expired: 'first-byte' | 'total' | undefined;
  let released = false;
  /** Ends what is under way at the address. */
  let stop: ((reason: Error) => void) | undefined;

  // Whoever went away or stands still may never ask for the next event, so the place is freed here.
  const giveUp = (): void => {
    const failure = lease.explain(undefined);
    stop?.(failure);
    lease.release(failure);
  };
  // One timer for both limits: nearly every answer is there before either, and to set and clear timers shows with small ones.
  const watch = (): NodeJS.Timeout => {
    const now = performance.now();
    // Another request may begin to wait any time.
    const restMs = Math.min(totalDueAt, firstByteDueAt, now + firstByteTimeoutMs) - now;
    return setTimeout(look, Math.min(Math.max(1, Math.ceil(restMs)), LONGEST_TIMER_MS));
  };
  function look(): void {
    const now = performance.now();
    if (now >= totalDueAt) expired = 'total';
    else if (now >= firstByteDueAt) expired = 'first-byte';
    if (expired === undefined) timer = watch();
    else giveUp();
  }
  let timer = watch();

  /** From here on the address has so long to begin its answer. */
  const prepare = ({
    base,
    route,
    body,
    contentType = 'application/json',
    accept = 'application/json',
  }: LeaseRequest) => {
    if (released) throw lease.explain(undefined);
    firstByteDueAt = performance.now() + firstByteTimeoutMs;
    return {
      method: 'POST' as const,
      path: upstream.path(base, route),
      headers: {
        'content-type': contentType,
        accept,
        'x-request-id': context.requestId,
        ...upstream.authorization,
      },
      body,
    };
  };

  const refused = (status: number, headers: Dispatcher.ResponseData['headers'], text: string, scope: FailureScope) => {
    const retryAfter = headers['retry-after'];
    return failureFromAnswer(
      status,
      parseJson(text) ?? text,
      scope,
      typeof retryAfter === 'string' ? retryAfter : undefined,
    );
  };
  const tooLong = (limit: number) => malformedAnswer(`an answer is longer than ${limit} bytes`, { slug });

  const lease: Lease = {
    upstream,
    async send(request) {
      const controller = new AbortController();
      try {
        const prepared = prepare(request);
        stop = (reason) => controller.abort(reason);
        const answer = await upstream.request({
          ...prepared,
          signal: controller.signal,
          highWaterMark: READ_AHEAD_BYTES,
        });
        if (isGood(answer.statusCode)) return answer;
        const text = await readText(answer, MAX_ERROR_BYTES, tooLong);
        throw refused(answer.statusCode, answer.headers, text, request.scope);
      } catch (error) {
        throw lease.explain(error);
      }
    },
    async sendForJson(request) {
      try {
        const running = upstream.exchange(prepare(request), {
          onBegun: lease.begun,
          maxBytes: (status) => (isGood(status) ? MAX_JSON_BYTES : MAX_ERROR_BYTES),
          tooLong,
        });
        stop = running.abort;
        const { status, headers, text } = await running.answer;
        if (!isGood(status)) throw refused(status, headers, text, request.scope);
        const json = parseJson(text);
        if (json === undefined) throw malformedAnswer('an answer is not JSON', { slug });
        return { json, headers };
      } catch (error) {
        throw lease.explain(error);
      }
    },
    begun() {
      firstByteDueAt = Number.POSITIVE_INFINITY;
    },
    explain(error) {
      if (error instanceof UpstreamFailure) return error;
      if (context.signal.aborted) {
        return new UpstreamFailure('cancelled', cancellation(context.signal), 'cancelled');
      }
      if (expired !== undefined) {
        const [limitMs, what] =
          expired === 'total'
            ? [totalTimeoutMs, 'the whole answer took too long']
            : [firstByteTimeoutMs, 'its answer did not begin'];
        return new UpstreamFailure('timeout', errors.upstreamTimeout(what), `no ${expired} within ${limitMs} ms`);
      }
      return failureFromTransport(error, { slug });
    },
    release(failure) {
      if (released) return;
      released = true;
      clearTimeout(timer);
      context.signal.removeEventListener('abort', giveUp);
      onRelease(failure);
    },
  };
  context.signal.addEventListener('abort', giveUp, { once: true });
  return lease;
}

const isGood = (status: number): boolean => status >= 200 && status < 300;

async function readText(
  { body, headers }: Dispatcher.ResponseData,
  limit: number,
  tooLong: (limit: number) => Error,
): Promise<string> {
  if (Number(headers['content-length']) <= limit) return body.text();
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body) {
    if (!Buffer.isBuffer(chunk)) continue;
    chunks.push(chunk);
    length += chunk.length;
    if (length > limit) throw tooLong(limit);
  }
  return Buffer.concat(chunks, length).toString('utf8');
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
