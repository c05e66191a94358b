import type { FastifyRequest } from 'fastify';
import { OPTIONAL_BODY } from '../openapi.ts';

/** For a body whose fields are all optional: it may be absent. Options of its schema. */
export const MAY_BE_ABSENT = { documented: { [OPTIONAL_BODY]: true } };

/** The `preValidation` hook of such a route. A body of `null` is one, and refused like any other that is no object. */
export async function fillAbsentBody(request: FastifyRequest): Promise<void> {
  if (request.body === undefined) request.body = {};
}
