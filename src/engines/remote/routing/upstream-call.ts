import { cancellation } from '../../../errors/cancellation.ts';
import { errors } from '../../../errors/errors.ts';
import type { FieldPath } from '../../../errors/fields.ts';
import type { CallContext } from '../../engine.ts';
import { failureFromAnswer } from '../failure/error-answer.ts';
import { failureFromTransport, malformedAnswer, UpstreamFailure } from '../failure/failure.ts';
import type { StreamedAnswer } from '../transport/stream.ts';
import type { Upstream } from './upstream.ts';

export interface UpstreamRequest {
  base: 'api' | 'root';
  route: string;
  body: string | Buffer;
  contentType?: string;
  accept?: string;
  /** The answer begins only when it is complete, which may take long: only the total timeout applies. */
  answersWhenComplete?: boolean;
  /** The field that errors about the size of the request name. */
  field: FieldPath;
}

export interface JsonAnswer {
  json: unknown;
  headers: Readonly<Record<string, string>>;
}

/** One request's use of one upstream. It holds one of the upstream's slots until it is released. */
export interface UpstreamCall {
  readonly upstream: Upstream;
  /** Sends a request and resolves when a successful answer begins. Rejects with an `UpstreamFailure`. */
  stream(request: UpstreamRequest): Promise<StreamedAnswer>;
  /** Sends a request and reads the whole answer. Rejects with an `UpstreamFailure`. */
  fetchJson(request: UpstreamRequest): Promise<JsonAnswer>;
  /** The first bytes of the answer's body are here: from now on only the total timeout applies. */
  answerBegan(): void;
  /** Finds out why reading an answer failed: a timeout, the caller or the connection. */
  failureOf(error: unknown): UpstreamFailure;
  /** For an error that the upstream sent inside an answer. */
  reported(status: number, body: unknown, field: FieldPath): UpstreamFailure;
  malformed(detail: string): UpstreamFailure;
  /** Frees the slot. Only the first call has an effect. */
  release(failure?: UpstreamFailure): void;
}

export interface UpstreamCallDependencies {
  upstream: Upstream;
  context: CallContext;
  slug: string;
  contextLength: number;
  onRelease(failure: UpstreamFailure | undefined): void;
}

const MAX_ERROR_BYTES = 64 * 1024;
/** 2048 vectors of 4096 numbers in base64 are 45 MB. */
const MAX_JSON_BYTES = 256 * 1024 * 1024;
/** Node fires longer timers after one millisecond. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

const isGood = (status: number): boolean => status >= 200 && status < 300;

export function createUpstreamCall(dependencies: UpstreamCallDependencies): UpstreamCall {
  const { upstream, context, slug, contextLength, onRelease } = dependencies;
  const { firstByteTimeoutMs, totalTimeoutMs } = upstream.settings;
  const totalDueAt = performance.now() + totalTimeoutMs;
  /** Finite while an answer is awaited. */
  let firstByteDueAt = Number.POSITIVE_INFINITY;
  let expired: 'first-byte' | 'total' | undefined;
  let isReleased = false;
  let abort: ((reason: Error) => void) | undefined;

  // A consumer that is gone or stuck may never ask for the next event, so the slot is freed here.
  const giveUp = (): void => {
    const failure = call.failureOf(undefined);
    abort?.(failure);
    call.release(failure);
  };
  // One timer for both timeouts: nearly every answer arrives before either, and timers cost time in small requests.
  const startTimer = (): NodeJS.Timeout => {
    const now = performance.now();
    // A later request of this call may set a new first-byte deadline.
    const restMs = Math.min(totalDueAt, firstByteDueAt, now + firstByteTimeoutMs) - now;
    return setTimeout(checkDeadlines, Math.min(Math.max(1, Math.ceil(restMs)), LONGEST_TIMER_MS));
  };
  function checkDeadlines(): void {
    const now = performance.now();
    if (now >= totalDueAt) expired = 'total';
    else if (now >= firstByteDueAt) expired = 'first-byte';
    if (expired === undefined) timer = startTimer();
    else giveUp();
  }
  let timer = startTimer();

  const prepare = (request: UpstreamRequest) => {
    const { base, route, body, contentType = 'application/json', accept, answersWhenComplete } = request;
    if (isReleased) throw call.failureOf(undefined);
    firstByteDueAt = answersWhenComplete ? Number.POSITIVE_INFINITY : performance.now() + firstByteTimeoutMs;
    return {
      method: 'POST' as const,
      path: upstream.path(base, route),
      headers: {
        'content-type': contentType,
        accept: accept ?? 'application/json',
        'x-request-id': context.requestId,
        ...upstream.authorization,
      },
      body,
    };
  };

  const errorAnswer = (
    status: number,
    headers: StreamedAnswer['headers'],
    text: string,
    field: FieldPath,
  ): UpstreamFailure => {
    const clean = upstream.scrub(text);
    return failureFromAnswer(
      status,
      parseJson(clean) ?? clean,
      { slug, upstreamName: upstream.model, contextLength, field },
      headers['retry-after'],
    );
  };
  const tooLong = (limit: number) => call.malformed(`an answer is longer than ${limit} bytes`);

  const call: UpstreamCall = {
    upstream,
    async stream(request) {
      try {
        const running = upstream.transport.stream(prepare(request));
        abort = running.abort;
        const answer = await running.answer;
        if (isGood(answer.status)) return answer;
        const text = await answer.text(MAX_ERROR_BYTES);
        if (text === undefined) answer.abort();
        throw text === undefined
          ? tooLong(MAX_ERROR_BYTES)
          : errorAnswer(answer.status, answer.headers, text, request.field);
      } catch (error) {
        throw call.failureOf(error);
      }
    },
    async fetchJson(request) {
      try {
        const exchange = upstream.transport.exchange(prepare(request), {
          onHead: call.answerBegan,
          maxBytes: (status) => (isGood(status) ? MAX_JSON_BYTES : MAX_ERROR_BYTES),
          tooLong,
        });
        abort = exchange.abort;
        const { status, headers, text } = await exchange.answer;
        if (!isGood(status)) throw errorAnswer(status, headers, text, request.field);
        const json = parseJson(upstream.scrubAnswer(text));
        if (json === undefined) throw call.malformed('an answer is not JSON');
        return { json, headers };
      } catch (error) {
        throw call.failureOf(error);
      }
    },
    answerBegan() {
      firstByteDueAt = Number.POSITIVE_INFINITY;
    },
    failureOf(error) {
      if (error instanceof UpstreamFailure) return error;
      if (context.signal.aborted) {
        return new UpstreamFailure('cancelled', cancellation(context.signal), 'cancelled');
      }
      if (expired === 'total') {
        const detail = `no complete answer within ${totalTimeoutMs} ms`;
        return new UpstreamFailure('timeout', errors.upstreamTimeout('the whole answer took too long'), detail);
      }
      if (expired === 'first-byte') {
        const detail = `no first byte within ${firstByteTimeoutMs} ms`;
        return new UpstreamFailure('timeout', errors.upstreamTimeout('its answer did not begin'), detail);
      }
      return failureFromTransport(error, slug);
    },
    reported: (status, body, field) =>
      failureFromAnswer(status, JSON.parse(upstream.scrub(JSON.stringify(body))), {
        slug,
        upstreamName: upstream.model,
        contextLength,
        field,
      }),
    malformed: (detail) => malformedAnswer(upstream.scrub(detail), slug),
    release(failure) {
      if (isReleased) return;
      isReleased = true;
      clearTimeout(timer);
      context.signal.removeEventListener('abort', giveUp);
      onRelease(failure);
    },
  };
  context.signal.addEventListener('abort', giveUp, { once: true });
  return call;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
