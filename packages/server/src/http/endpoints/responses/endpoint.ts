import { errors } from '@baobab/core/errors/errors.ts';
import type { InferenceCall } from '../../../inference/call.ts';
import type { ResponseCreator } from '../../../services/responses/create.ts';
import { RESPONSE_FIELDS } from './command.ts';
import { CreateResponse, type CreateResponseBody, type InputItemBody } from './schema.ts';
import type { WireResponse } from './writer.ts';

export type WireResponseCreator = ResponseCreator<CreateResponseBody, InputItemBody, WireResponse>;

/** What the route and the lines of batches share. */
export const responseEndpoint = {
  schema: CreateResponse,
  fieldNames: RESPONSE_FIELDS,

  /** The answer of a line of a batch. It is kept only if the line asks for it: its batch keeps it already. */
  async answerLine(creator: WireResponseCreator, call: InferenceCall, body: CreateResponseBody): Promise<WireResponse> {
    for (const field of ['stream', 'background'] as const) {
      if (body[field]) throw errors.invalidParameter(field, `'${field}' cannot be true in a batch.`);
    }
    const run = await creator.begin(call.principal, body, { store: body.store ?? false });
    return run.answer(call);
  },
};
