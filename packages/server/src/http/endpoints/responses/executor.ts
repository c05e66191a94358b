import type { PendingResponse } from '@baobab/core/domain/response.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { InferenceCall } from '../../../inference/call.ts';
import type { ResponseEventLog } from '../../../services/responses/event-log.ts';
import type { ResponseExecutor } from '../../../services/responses/runner.ts';
import { nameFields } from '../../answer/field-names.ts';
import { emptyResponse, responseError, type WireResponse } from './answer.ts';
import {
  conversationOf,
  planResponse,
  type ResponseDependencies,
  readHistory,
  saveResponse,
  toRecord,
} from './plan.ts';
import { canContinue, GATHER_MS, toRecordedEvents } from './recording.ts';
import { RESPONSE_FIELDS } from './request.ts';
import { createResponseRun, type RunOptions } from './run.ts';
import type { CreateResponseBody } from './schema.ts';

/** What is needed to run a background response later. */
export interface StoredRequest {
  body: CreateResponseBody;
  regionPin: string | undefined;
}

const requestOf = ({ request }: PendingResponse): StoredRequest => JSON.parse(request);

const headOf = ({ id, createdAt }: PendingResponse, body: CreateResponseBody) => ({
  id,
  createdAt,
  store: true,
  conversationId: conversationOf(body),
});

/** Runs background responses, and records the events of those that are streamed. */
export function createResponseExecutor(
  dependencies: ResponseDependencies & { eventLog: Pick<ResponseEventLog, 'lastEvent'> },
): ResponseExecutor {
  return {
    async execute(pending, call, record) {
      const { body, regionPin } = requestOf(pending);
      const history = await readHistory(dependencies, pending.accountId, body);
      const planned = { head: headOf(pending, body), body, ...history };
      const lastEvent = body.stream ? await dependencies.eventLog.lastEvent(pending.id) : undefined;
      const recording: RunOptions = {
        gatherMs: GATHER_MS,
        async onEvents(events) {
          if (events.length > 0) await record(toRecordedEvents(events));
        },
      };
      const { writer, run } = createResponseRun(dependencies, planned, lastEvent);
      await run({ ...call, regionPin }, canContinue(lastEvent) ? recording : {});
      const { response } = writer;
      const { record: stored, options } = toRecord(planned, response);
      return {
        status: response.status === 'incomplete' ? 'incomplete' : 'completed',
        content: stored.content,
        items: options.items,
      };
    },

    failed(pending, error) {
      const { body } = requestOf(pending);
      const response = {
        ...emptyResponse(headOf(pending, body), body, 'failed'),
        error: responseError(nameFields(error, RESPONSE_FIELDS, body)),
      };
      return { status: 'failed', content: JSON.stringify(response) };
    },
  };
}

/** The answer of a line of a batch. It is kept only if the line asks for it: its batch keeps it already. */
export async function answerBatchLine(
  dependencies: ResponseDependencies,
  call: InferenceCall,
  body: CreateResponseBody,
): Promise<WireResponse> {
  for (const field of ['stream', 'background'] as const) {
    if (body[field]) throw errors.invalidParameter(field, `'${field}' cannot be true in a batch.`);
  }
  const planned = await planResponse(dependencies, call.principal, body, { store: body.store ?? false });
  const { writer, run } = createResponseRun(dependencies, planned);
  await run(call);
  await saveResponse(dependencies, call.principal, planned, writer.response);
  return writer.response;
}
