import type { FastifyRequest } from 'fastify';
import { OPTIONAL_BODY } from '../openapi.ts';

/** For a body whose fields are all optional: it may be absent. Options of its schema. */
export const MAY_BE_ABSENT = { documented: { [OPTIONAL_BODY]: true } };

/** The `preValidation` hook of such a route. `null` is a body, and is refused like any other that is not an object. */
export async function fillAbsentBody(request: FastifyRequest): Promise<void> {
  if (request.body === undefined) request.body = {};
}

/** Some clients name a content type and send nothing, for example to cancel or delete something. */
export function mayBeEmpty({ routeOptions }: FastifyRequest): boolean {
  const body = routeOptions.schema?.body as { documented?: Readonly<Record<string, unknown>> } | undefined;
  return body === undefined || body.documented?.[OPTIONAL_BODY] === true;
}
