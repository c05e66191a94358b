import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { createRepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';
import plugin from 'fastify-plugin';
import { sendError } from '../answer/error-answer.ts';

/** Longer than most outages last. */
const OUTAGE_OVER_MS = 60_000;

export const errorHandler = plugin<{ clock: Clock; logger: Logger }>(async (server, { clock, logger }) => {
  const text = 'the storage does not answer, requests that need it get 503';
  const outage = { logger, clock, text, overAfterMs: OUTAGE_OVER_MS };
  server.decorate('storageOutage', createRepeatedFailure(outage));
  server.setErrorHandler((error, request, reply) => sendError(error, request, reply));
});
