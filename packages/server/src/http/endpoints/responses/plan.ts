import type { Principal } from '@baobab/core/domain/principal.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import { createId, deriveId } from '@baobab/core/runtime/ids.ts';
import { createTimeSlice } from '@baobab/core/runtime/time-slices.ts';
import type { ChatService } from '../../../inference/chat.ts';
import type { ConversationsService } from '../../../services/responses/conversations.ts';
import type { NewResponse, ResponsesService, SaveOptions } from '../../../services/responses/responses.ts';
import type { ResponseHead, WireResponse } from './answer.ts';
import { inputItems } from './request.ts';
import type { CreateResponseBody, InputItemBody } from './schema.ts';
import { itemsOf, itemsToStore, parseStored, resolveReferences, type StoredItem } from './stored.ts';

export interface ResponseDependencies {
  chat: ChatService;
  responses: ResponsesService;
  conversations: ConversationsService;
  clock: Clock;
}

export interface PlannedResponse {
  head: ResponseHead;
  /** With items in place of references. */
  body: CreateResponseBody;
  /** The items of the conversation so far. */
  before: readonly InputItemBody[];
  /** The responses that it continues. */
  ancestors: readonly string[];
}

export const conversationOf = ({ conversation }: CreateResponseBody): string | undefined =>
  typeof conversation === 'string' ? conversation : conversation?.id;

/** What was said before: by the responses that this one continues, or in its conversation. */
export async function readHistory(
  { responses, conversations }: ResponseDependencies,
  accountId: string,
  body: CreateResponseBody,
): Promise<Pick<PlannedResponse, 'before' | 'ancestors'>> {
  const { previous_response_id: previousId } = body;
  const conversationId = conversationOf(body);
  if (previousId && conversationId) {
    throw errors.invalidParameter(
      'conversation',
      "'conversation' and 'previous_response_id' cannot be sent together: each names what to continue.",
    );
  }
  if (previousId) {
    const history = await responses.history(accountId, previousId);
    return { before: await itemsOf(history), ancestors: history.map(({ id }) => id) };
  }
  if (!conversationId) return { before: [], ancestors: [] };
  const items = await conversations.history(accountId, conversationId);
  const slice = createTimeSlice();
  const before: InputItemBody[] = [];
  for (const { content } of items) {
    before.push(await parseStored<InputItemBody>(content));
    if (slice.isOver()) await slice.next();
  }
  return { before, ancestors: [] };
}

/** The run of an idempotency key. It is the same when the run is repeated after a crash. */
export interface RepeatableRun {
  billingId: string;
  startedAt: number;
}

/** A repeated run finds the background response that it has created. */
export const backgroundId = ({ billingId, startedAt }: RepeatableRun): string => deriveId('resp', startedAt, billingId);

export interface PlanOptions {
  /** Overrides what the body says. */
  store?: boolean | undefined;
  /** Only for a background response. */
  run?: RepeatableRun | undefined;
}

export async function planResponse(
  dependencies: ResponseDependencies,
  { account }: Principal,
  body: CreateResponseBody,
  { store: wanted = body.store ?? undefined, run }: PlanOptions = {},
): Promise<PlannedResponse> {
  const { responses, clock } = dependencies;
  const store = await responses.keeps(account, wanted);
  if (body.background && !store) {
    throw errors.unsupportedParameter(
      'background',
      "'background' needs a response that is stored: 'store' is false, or this account stores nothing.",
    );
  }
  const history = await readHistory(dependencies, account.id, body);
  const input = await resolveReferences(inputItems(body), { responses, accountId: account.id });
  const now = clock.now();
  const id = run ? backgroundId(run) : createId('resp', now);
  const head = { id, createdAt: now, store, conversationId: conversationOf(body) };
  return { head, body: { ...body, input }, ...history };
}

const idPartOf = ({ id }: ResponseHead): string => id.slice(id.indexOf('_') + 1);

/** The record of a response, and what it adds to its conversation. */
export function toRecord(
  { head, body, ancestors }: PlannedResponse,
  response: WireResponse,
): { record: NewResponse; options: SaveOptions } {
  const input = itemsToStore(inputItems(body), idPartOf(head));
  const said = [...input, ...(response.output as StoredItem[])];
  return {
    record: {
      id: head.id,
      previousId: body.previous_response_id ?? null,
      conversationId: head.conversationId ?? null,
      status: response.status,
      background: body.background ?? false,
      createdAt: head.createdAt,
      input: JSON.stringify(input),
      content: JSON.stringify(response),
    },
    options: {
      ancestors,
      items: said.map((item) => ({ id: item.id, content: JSON.stringify(item) })),
    },
  };
}

/** Stores a response that has ended, before the client sees its end. */
export async function saveResponse(
  { responses, conversations }: ResponseDependencies,
  principal: Principal,
  planned: PlannedResponse,
  response: WireResponse,
): Promise<void> {
  const { record, options } = toRecord(planned, response);
  if (planned.head.store) response.store = await responses.save(principal, record, options);
  else if (record.conversationId !== null) {
    await conversations.append(principal.account, record.conversationId, options.items ?? []);
  }
}
