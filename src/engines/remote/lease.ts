import type { Dispatcher } from 'undici';
import { errors } from '../../errors/errors.ts';
import type { CallContext } from '../engine.ts';
import {
  cancellation,
  type FailureScope,
  failureFromAnswer,
  failureFromTransport,
  malformedAnswer,
  UpstreamFailure,
} from './failure.ts';
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
/** 2048 vectors of 4096 numbers in base64 are 45 MB. */
const MAX_JSON_BYTES = 256 * 1024 * 1024;

export interface LeaseDependencies {
  upstream: Upstream;
  context: CallContext;
  slug: string;
  onRelease(failure: UpstreamFailure | undefined): void;
}

export function createLease({ upstream, context, slug, onRelease }: LeaseDependencies): Lease {
  const { settings } = upstream;
  const controller = new AbortController();
  let expired: 'first-byte' | 'total' | undefined;
  let released = false;

  // Whoever went away or stands still may never ask for the next event, so the place is freed here.
  const giveUp = (): void => {
    controller.abort();
    lease.release(lease.explain(undefined));
  };
  const expire = (which: 'first-byte' | 'total') => () => {
    expired = which;
    giveUp();
  };
  let firstByteTimer: NodeJS.Timeout | undefined;
  const totalTimer = setTimeout(expire('total'), settings.totalTimeoutMs);

  const readText = async ({ body, headers }: Dispatcher.ResponseData, limit: number): Promise<string> => {
    if (Number(headers['content-length']) <= limit) return body.text();
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of body) {
      if (!Buffer.isBuffer(chunk)) continue;
      chunks.push(chunk);
      length += chunk.length;
      if (length > limit) throw malformedAnswer(`an answer is longer than ${limit} bytes`, { slug });
    }
    return Buffer.concat(chunks, length).toString('utf8');
  };

  const lease: Lease = {
    upstream,
    async send({ base, route, body, contentType = 'application/json', accept = 'application/json', scope }) {
      if (released) throw lease.explain(undefined);
      clearTimeout(firstByteTimer);
      firstByteTimer = setTimeout(expire('first-byte'), settings.firstByteTimeoutMs);
      try {
        const answer = await upstream.request({
          method: 'POST',
          path: upstream.path(base, route),
          headers: {
            'content-type': contentType,
            accept,
            'x-request-id': context.requestId,
            ...upstream.authorization,
          },
          body,
          signal: controller.signal,
          highWaterMark: READ_AHEAD_BYTES,
        });
        if (answer.statusCode >= 200 && answer.statusCode < 300) return answer;
        const raw = await readText(answer, MAX_ERROR_BYTES);
        const retryAfter = answer.headers['retry-after'];
        throw failureFromAnswer(
          answer.statusCode,
          parseJson(raw) ?? raw,
          scope,
          typeof retryAfter === 'string' ? retryAfter : undefined,
        );
      } catch (error) {
        throw lease.explain(error);
      }
    },
    async sendForJson(request) {
      const answer = await lease.send(request);
      lease.begun();
      try {
        const json = parseJson(await readText(answer, MAX_JSON_BYTES));
        if (json === undefined) throw malformedAnswer('an answer is not JSON', { slug });
        return { json, headers: answer.headers };
      } catch (error) {
        throw lease.explain(error);
      }
    },
    begun: () => clearTimeout(firstByteTimer),
    explain(error) {
      if (error instanceof UpstreamFailure) return error;
      if (context.signal.aborted) {
        return new UpstreamFailure('cancelled', cancellation(context.signal), 'cancelled');
      }
      if (expired !== undefined) {
        const [limitMs, what] =
          expired === 'total'
            ? [settings.totalTimeoutMs, 'the whole answer took too long']
            : [settings.firstByteTimeoutMs, 'its answer did not begin'];
        return new UpstreamFailure('timeout', errors.upstreamTimeout(what), `no ${expired} within ${limitMs} ms`);
      }
      return failureFromTransport(error, { slug });
    },
    release(failure) {
      if (released) return;
      released = true;
      clearTimeout(firstByteTimer);
      clearTimeout(totalTimer);
      context.signal.removeEventListener('abort', giveUp);
      onRelease(failure);
    },
  };
  context.signal.addEventListener('abort', giveUp, { once: true });
  return lease;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
