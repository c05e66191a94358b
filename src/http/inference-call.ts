import type { FastifyReply, FastifyRequest } from 'fastify';
import { goDuration } from '../domain/go-duration.ts';
import type { AdmissionFacts, InferenceCall } from '../services/inference.ts';
import { disconnectSignal, principalOf } from './request-record.ts';

const headersOf = <K extends 'requests' | 'tokens'>(kind: K) => ({
  kind,
  limit: `x-ratelimit-limit-${kind}`,
  remaining: `x-ratelimit-remaining-${kind}`,
  reset: `x-ratelimit-reset-${kind}`,
});
const RATE_HEADERS = [headersOf('requests'), headersOf('tokens')];

function setHeaders(reply: FastifyReply, facts: AdmissionFacts): void {
  if (facts.deprecatedAt !== null) reply.header('service-deprecated', facts.deprecatedAt);
  for (const names of RATE_HEADERS) {
    const { limit, remaining, resetMs } = facts[names.kind];
    // By toFixed: texts that V8 makes of numbers in any other way stay in a cache of its own, and so come into its old space.
    reply.header(names.limit, limit.toFixed(0));
    reply.header(names.remaining, remaining.toFixed(0));
    reply.header(names.reset, goDuration(resetMs));
  }
  if (facts.budgetWarning !== undefined) {
    const { owner, percent } = facts.budgetWarning;
    reply.header('x-budget-warning', `${percent}% of the monthly budget of this ${owner} is spent`);
  }
}

/** The call of an interactive request. Its headers are set as soon as it is admitted, so that streams carry them too. */
export function inferenceCall(request: FastifyRequest, reply: FastifyReply, endpoint: string): InferenceCall {
  const region = request.headers['x-service-region'];
  return {
    requestId: request.id,
    principal: principalOf(request),
    regionPin: typeof region === 'string' && region !== '' ? region : undefined,
    signal: disconnectSignal(reply),
    priority: 'interactive',
    endpoint,
    billingId: request.idempotentRun?.billingId,
    onDecided: (facts) => {
      request.record.model = facts.slug;
      setHeaders(reply, facts);
    },
  };
}
