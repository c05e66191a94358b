import type { CallContext } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import type { JsonAnswer, UpstreamRequest } from '../dialects/dialect.ts';
import { failureFromAnswer } from '../failure/error-answer.ts';
import { failureFromTransport, malformedAnswer, UpstreamFailure } from '../failure/failure.ts';
import type { HttpRequest } from '../transport/connection-pool.ts';
import { exchange, type WholeAnswer } from '../transport/exchange.ts';
import { type StreamedAnswer, stream } from '../transport/stream.ts';
import { NOT_WATCHED, type Timed } from './deadlines.ts';
import type { Upstream } from './upstream.ts';

export interface UpstreamCallDependencies {
  upstream: Upstream;
  context: CallContext;
  slug: string;
  contextLength: number;
  onRelease(failure: UpstreamFailure | undefined): void;
  onOvercount(): void;
}

const MAX_ERROR_BYTES = 64 * 1024;
/** 2048 vectors of 4096 numbers in base64 are 45 MB, in decimals 92 MB and more. */
const MAX_JSON_BYTES = 256 * 1024 * 1024;

const isGood = (status: number): boolean => status >= 200 && status < 300;

/** Between two looks whether an upstream still answers its health checks. */
const ALIVE_PAUSE_MS = 1_000;

/**
 * One request's use of one upstream. It holds one of the upstream's slots until it is released. A class: every open stream has one, and with a
 * closure for every method it would be several times as large.
 */
export class UpstreamCall implements Timed {
  index = NOT_WATCHED;
  readonly upstream: Upstream;
  readonly #dependencies: UpstreamCallDependencies;
  readonly #totalDueAt: number;
  /** Finite while an answer is awaited. */
  #firstByteDueAt = Number.POSITIVE_INFINITY;
  /** The answer begins when it is complete, which may take long. */
  #answersWhenComplete = false;
  #expired: 'first-byte' | 'total' | undefined;
  #isReleased = false;
  #running: { abort(reason: Error): void } | undefined;
  readonly #onAbort = (): void => this.#giveUp();

  constructor(dependencies: UpstreamCallDependencies) {
    const { upstream, context } = dependencies;
    this.upstream = upstream;
    this.#dependencies = dependencies;
    this.#totalDueAt = performance.now() + upstream.settings.totalTimeoutMs;
    context.signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** Sends a request and resolves when a successful answer begins. Rejects with an `UpstreamFailure`. */
  async stream(request: UpstreamRequest): Promise<StreamedAnswer> {
    try {
      const answer = await this.#send(request, (prepared) => stream(this.upstream.connections, prepared));
      if (isGood(answer.status)) return answer;
      const text = await answer.text(MAX_ERROR_BYTES);
      if (text === undefined) answer.abort();
      throw text === undefined
        ? this.#tooLong(MAX_ERROR_BYTES)
        : this.#errorAnswer({ status: answer.status, headers: answer.headers, text }, request);
    } catch (error) {
      throw this.failureOf(error);
    }
  }

  /** Sends a request and reads the whole answer. Rejects with an `UpstreamFailure`. */
  async fetchJson(request: UpstreamRequest): Promise<JsonAnswer> {
    try {
      const answer = await this.#send(request, (prepared) =>
        exchange(this.upstream.connections, prepared, {
          onHead: () => this.answerBegan(),
          maxBytes: (status) => (isGood(status) ? (request.maxAnswerBytes ?? MAX_JSON_BYTES) : MAX_ERROR_BYTES),
          tooLong: (limit) => this.#tooLong(limit),
        }),
      );
      if (!isGood(answer.status)) throw this.#errorAnswer(answer, request);
      const json = parseJson(this.upstream.scrubAnswer(answer.text));
      if (json === undefined) throw this.malformed('an answer is not JSON');
      return { json, characters: answer.text.length, headers: answer.headers };
    } catch (error) {
      throw this.failureOf(error);
    }
  }

  /** The first bytes of the answer's body are here: from now on only the total timeout applies. */
  answerBegan(): void {
    this.#firstByteDueAt = Number.POSITIVE_INFINITY;
  }

  /** Finds out why reading an answer failed: a timeout, the caller or the connection. */
  failureOf(error: unknown): UpstreamFailure {
    if (error instanceof UpstreamFailure) return error;
    const { context, slug } = this.#dependencies;
    const { firstByteTimeoutMs, totalTimeoutMs } = this.upstream.settings;
    if (context.signal.aborted) {
      return new UpstreamFailure('cancelled', cancellation(context.signal), 'cancelled');
    }
    if (this.#expired === 'total') {
      const detail = `no complete answer within ${totalTimeoutMs} ms`;
      return new UpstreamFailure('timeout', errors.upstreamTimeout('the whole answer took too long'), detail);
    }
    if (this.#expired === 'first-byte') {
      const detail = `no first byte within ${firstByteTimeoutMs} ms`;
      return new UpstreamFailure('timeout', errors.upstreamTimeout('its answer did not begin'), detail);
    }
    return failureFromTransport(error, slug);
  }

  /** For an error that the upstream sent inside an answer. */
  reported(status: number, body: unknown, field: FieldPath): UpstreamFailure {
    const clean: unknown = JSON.parse(this.upstream.scrub(JSON.stringify(body)));
    return failureFromAnswer(status, clean, this.#facts(field));
  }

  malformed(detail: string): UpstreamFailure {
    return malformedAnswer(this.upstream.scrub(detail), this.#dependencies.slug);
  }

  /** The answer has token counts that are not possible. */
  overcounted(): void {
    this.#dependencies.onOvercount();
  }

  /** Frees the slot. Only the first call has an effect. */
  release(failure?: UpstreamFailure): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.upstream.deadlines.forget(this);
    const { context, onRelease } = this.#dependencies;
    context.signal.removeEventListener('abort', this.#onAbort);
    onRelease(failure);
  }

  get dueAt(): number {
    return Math.min(this.#totalDueAt, this.#firstByteDueAt);
  }

  expire(): void {
    const now = performance.now();
    if (this.#answersWhenComplete && this.upstream.alive && now < this.#totalDueAt) {
      // Its health checks are answered, so it is most likely generating.
      this.#firstByteDueAt = now + ALIVE_PAUSE_MS;
      return;
    }
    this.#expired = this.#totalDueAt <= this.#firstByteDueAt ? 'total' : 'first-byte';
    this.#giveUp();
  }

  // A consumer that is gone or stuck may never ask for the next event, so the slot is freed here.
  #giveUp(): void {
    const failure = this.failureOf(undefined);
    this.#running?.abort(failure);
    this.release(failure);
  }

  /** Once more if the key was replaced. */
  async #send<T extends { status: number }>(
    request: UpstreamRequest,
    begin: (prepared: HttpRequest) => { readonly answer: Promise<T>; abort(reason: Error): void },
  ): Promise<T> {
    const send = () => {
      const prepared = this.#prepare(request);
      const running = begin(prepared);
      this.#running = running;
      return { prepared, running };
    };
    const { prepared, running } = send();
    const answer = await running.answer;
    if (!this.upstream.refusedOldKey(answer.status, prepared.headers)) return answer;
    running.abort(new Error('the key was replaced'));
    return send().running.answer;
  }

  #prepare(request: UpstreamRequest): HttpRequest {
    const { body, contentType = 'application/json', accept, answersWhenComplete = false } = request;
    if (this.#isReleased) throw this.failureOf(undefined);
    const { upstream } = this;
    this.#answersWhenComplete = answersWhenComplete;
    this.#firstByteDueAt = performance.now() + upstream.settings.firstByteTimeoutMs;
    upstream.deadlines.watch(this);
    return {
      method: 'POST',
      path: upstream.path(request),
      headers: {
        'content-type': contentType,
        accept: accept ?? 'application/json',
        'x-request-id': this.#dependencies.context.requestId,
        ...upstream.authorization,
      },
      body,
    };
  }

  #facts(field: FieldPath) {
    const { slug, contextLength } = this.#dependencies;
    return { slug, upstreamName: this.upstream.model, contextLength, field };
  }

  #errorAnswer({ status, headers, text }: WholeAnswer, { field, forTokens }: UpstreamRequest): UpstreamFailure {
    const clean = this.upstream.scrub(text);
    const facts = { ...this.#facts(field), forTokens };
    return failureFromAnswer(status, parseJson(clean) ?? clean, facts, headers['retry-after']);
  }

  #tooLong(limit: number): UpstreamFailure {
    return this.malformed(`an answer is longer than ${limit} bytes`);
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
