import type { UpstreamAttempt } from '@baobab/core/domain/attempts.ts';
import { isoTime } from '@baobab/core/domain/time/dates.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type {
  AdmissionFacts,
  Bill,
  Caller,
  FailedModel,
  InferenceCall,
  InferenceObserver,
} from '../../inference/call.ts';
import type { LimitStatus } from '../../inference/limits/admission.ts';
import type { InferenceService } from '../../inference/pipeline.ts';
import { disconnectSignal, principalOf } from './request-record.ts';

/** A duration as Go writes it, which clients of rate-limit headers expect: `0s`, `0.12s`, `6.5s`, `1m30s`, `2h0m1s`. */
export function goDuration(ms: number): string {
  const whole = Math.max(0, Math.ceil(ms));
  const hours = Math.floor(whole / 3_600_000);
  const minutes = Math.floor(whole / 60_000) % 60;
  const seconds = `${(whole % 60_000) / 1000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}

/** A large request may be split into many calls; the first ones are recorded. */
const MAX_ATTEMPTS = 16;

const headersOf = <K extends 'requests' | 'tokens'>(kind: K) => ({
  kind,
  limit: `x-ratelimit-limit-${kind}`,
  remaining: `x-ratelimit-remaining-${kind}`,
  reset: `x-ratelimit-reset-${kind}`,
});
const RATE_HEADERS = [headersOf('requests'), headersOf('tokens')];

function setRateHeaders(reply: FastifyReply, limitStatus: LimitStatus): void {
  for (const names of RATE_HEADERS) {
    const { limit, remaining, resetMs } = limitStatus[names.kind];
    // toFixed: other conversions of numbers fill V8's number-string cache, which ends up in old space.
    reply.header(names.limit, limit.toFixed(0));
    reply.header(names.remaining, remaining.toFixed(0));
    reply.header(names.reset, goDuration(resetMs));
  }
}

function setHeaders(reply: FastifyReply, facts: AdmissionFacts): void {
  reply.header('x-served-model', `${facts.slug}@${facts.version}`);
  if (facts.deprecatedAt !== null) reply.header('service-deprecated', isoTime(facts.deprecatedAt));
  setRateHeaders(reply, facts);
  if (facts.budgetWarning !== undefined) {
    const { owner, percent } = facts.budgetWarning;
    reply.header('x-budget-warning', `${percent}% of the monthly budget of this ${owner} is spent`);
  }
}

function regionPinOf({ headers }: FastifyRequest): string | undefined {
  const region = headers['x-service-region'];
  return typeof region === 'string' && region !== '' ? region : undefined;
}

export const callerOf = (request: FastifyRequest): Caller => ({
  principal: principalOf(request),
  regionPin: regionPinOf(request),
});

/** Sets the rate-limit headers of a replay, which itself uses none of the caller's limits. */
export async function showLimitStatus(
  request: FastifyRequest,
  reply: FastifyReply,
  { inference, model }: { inference: Pick<InferenceService, 'limitStatus'>; model: string },
): Promise<void> {
  const limitStatus = await inference.limitStatus(callerOf(request), model);
  if (limitStatus === undefined) return;
  request.record.model = limitStatus.slug;
  setRateHeaders(reply, limitStatus);
}

/** Writes what happens to a request into its record. Headers are set as soon as it is admitted, so that streams have them too. */
class RecordedRequest implements InferenceObserver {
  readonly #request: FastifyRequest;
  readonly #reply: FastifyReply;

  constructor(request: FastifyRequest, reply: FastifyReply) {
    this.#request = request;
    this.#reply = reply;
  }

  decided(facts: AdmissionFacts): void {
    const { record } = this.#request;
    record.model = facts.slug;
    record.version = facts.version;
    record.isRunning = true;
    setHeaders(this.#reply, facts);
  }

  failed({ slug, version }: FailedModel): void {
    const { record } = this.#request;
    if (record.model !== undefined) return;
    record.model = slug;
    record.version = version;
  }

  truncated(inputs: number): void {
    this.#reply.header('x-truncated-inputs', inputs.toFixed(0));
  }

  attempted(attempt: UpstreamAttempt): void {
    const { record } = this.#request;
    record.attempts ??= [];
    if (record.attempts.length < MAX_ATTEMPTS) record.attempts.push(attempt);
  }

  settled({ slug, version, region, used, costNanoUsd, firstTokenMs }: Bill): void {
    const { record } = this.#request;
    record.model = slug;
    record.version = version;
    record.region = region;
    record.used = used;
    record.costNanoUsd = costNanoUsd;
    record.firstTokenMs = firstTokenMs;
  }

  ended(): void {
    const { record } = this.#request;
    record.isRunning = false;
    record.onEnded?.();
  }
}

/** The call of a request that a client waits for. */
export function inferenceCall(request: FastifyRequest, reply: FastifyReply, endpoint: string): InferenceCall {
  const caller = callerOf(request);
  return {
    requestId: request.id,
    ...caller,
    signal: disconnectSignal(reply),
    priority: caller.principal.key.priority,
    endpoint,
    billingId: request.idempotentRun?.billingId,
    observer: new RecordedRequest(request, reply),
  };
}
