import type { Clock } from '@baobab/core/ports/clock.ts';
import { stringifyInSlices } from '@baobab/core/runtime/json-slices.ts';
import type { ResponseFormat } from '../../../services/responses/response-format.ts';
import { nameFields } from '../../answer/field-names.ts';
import { inputItems, RESPONSE_FIELDS, responseCommand } from './command.ts';
import type { CreateResponseBody, InputItemBody } from './schema.ts';
import {
  contentsOf,
  itemsOf,
  itemsToStore,
  ownersOfReferences,
  parseItems,
  replaceReferences,
  type StoredItem,
  storedResponse,
} from './stored-items.ts';
import { customToolsOf } from './tools.ts';
import {
  emptyResponse,
  eventsText,
  idPartOf,
  queuedEvents,
  ResponseEventWriter,
  responseError,
  type WireResponse,
} from './writer.ts';

const conversationOf = ({ conversation }: CreateResponseBody): string | undefined =>
  typeof conversation === 'string' ? conversation : conversation?.id;

/** Responses in the format of the Responses API. */
export const createResponseFormat = (
  clock: Clock,
): ResponseFormat<CreateResponseBody, InputItemBody, WireResponse> => ({
  read: (body) => ({
    store: body.store ?? undefined,
    background: body.background ?? false,
    stream: body.stream ?? false,
    truncates: body.truncation === 'auto',
    previousId: body.previous_response_id ?? undefined,
    conversationId: conversationOf(body),
  }),
  itemsOf,
  parseItems,
  referencesOf: (body) => ownersOfReferences(inputItems(body)),
  withReferences: async (body, referred) => ({ ...body, input: await replaceReferences(inputItems(body), referred) }),
  command: ({ body, before }) => responseCommand(body, before),
  writer: ({ head, body }, lastEvent) =>
    new ResponseEventWriter({ head, body, customTools: customToolsOf(body), lastEvent, clock }),

  queued({ head, body }) {
    const answer = emptyResponse(head, body, 'queued');
    const events = queuedEvents(answer);
    return { answer, events: { first: 0, last: events.length - 1, content: eventsText(events) } };
  },

  failed: ({ head, body }, error) => ({
    ...emptyResponse(head, body, 'failed'),
    error: responseError(nameFields(error, RESPONSE_FIELDS, body)),
  }),

  stored: storedResponse,

  async record({ head, body }, answer) {
    const input = itemsToStore(inputItems(body), idPartOf(head.id));
    const said = [...input, ...(answer.output as StoredItem[])];
    return {
      record: {
        id: head.id,
        previousId: body.previous_response_id ?? null,
        conversationId: head.conversationId ?? null,
        status: answer.status,
        background: body.background ?? false,
        createdAt: head.createdAt,
        input: await stringifyInSlices(input),
        content: await stringifyInSlices(answer),
      },
      items: head.conversationId === undefined ? [] : await contentsOf(said),
    };
  },
});
