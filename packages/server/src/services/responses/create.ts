import type { Account, Principal } from '@baobab/core/domain/principal.ts';
import type { PendingResponse } from '@baobab/core/domain/response.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import { createId, deriveId } from '@baobab/core/runtime/ids.ts';
import { stringifyInSlices } from '@baobab/core/runtime/json-slices.ts';
import type { Caller } from '../../inference/call.ts';
import type { ChatService } from '../../inference/chat.ts';
import type { ConversationsService } from './conversations.ts';
import type { ResponseEventLog } from './event-log.ts';
import type { ResponseDraft, ResponseFormat, ResponseHead, ResponseRequest } from './response-format.ts';
import type { ResponsesService } from './responses.ts';
import { ResponseRun } from './run.ts';
import type { ResponseExecutor } from './runner.ts';

/** The run of an idempotency key. It is the same when the run is repeated after a crash. */
export interface RepeatableRun {
  billingId: string;
  startedAt: number;
}

/** Creates responses: at once, or in the background. */
export interface ResponseCreator<Body, Item, Answer> extends ResponseExecutor {
  /** Reads what a request continues and refers to. `store` overrides what it says. */
  prepare(principal: Principal, body: Body, options?: { store?: boolean }): Promise<ResponseDraft<Body, Item>>;
  /** Prepares and checks a request. Throws what the client did wrong. */
  begin(principal: Principal, body: Body, options?: { store?: boolean }): Promise<ResponseRun<Answer>>;
  /** Answers at once; the runner does the rest. A repeated run finds the response that it has created. */
  enqueue(caller: Caller, body: Body, run: RepeatableRun | undefined): Promise<{ id: string; answer: Answer }>;
}

export interface ResponseCreatorDependencies<Body, Item, Answer> {
  chat: ChatService;
  responses: ResponsesService;
  conversations: Pick<ConversationsService, 'history' | 'append'>;
  eventLog: Pick<ResponseEventLog, 'lastEvent'>;
  format: ResponseFormat<Body, Item, Answer>;
  clock: Clock;
}

/** What is needed to run a background response later. */
interface PendingRequest<Body> {
  body: Body;
  regionPin: string | undefined;
}

/** The sequence number of `response.in_progress`, after `response.created` and `response.queued`. */
const IN_PROGRESS = 2;

export function createResponseCreator<Body, Item, Answer>(
  dependencies: ResponseCreatorDependencies<Body, Item, Answer>,
): ResponseCreator<Body, Item, Answer> {
  const { chat, responses, conversations, eventLog, format, clock } = dependencies;
  type Draft = ResponseDraft<Body, Item>;

  /** What was said before: by the responses that this one continues, or in its conversation. */
  async function history(
    accountId: string,
    { previousId, conversationId }: ResponseRequest,
  ): Promise<Pick<Draft, 'before' | 'ancestors'>> {
    if (previousId && conversationId) {
      throw errors.invalidParameter(
        ['conversation'],
        fieldText`${['conversation']} and ${['previousResponseId']} cannot be sent together: each names what to continue.`,
      );
    }
    if (previousId) {
      const earlier = await responses.history(accountId, previousId);
      return { before: await format.itemsOf(earlier), ancestors: earlier.map(({ id }) => id) };
    }
    if (!conversationId) return { before: [], ancestors: [] };
    return { before: await format.parseItems(await conversations.history(accountId, conversationId)), ancestors: [] };
  }

  async function prepare(account: Account, body: Body, store: boolean | undefined, ownId?: string): Promise<Draft> {
    const request = format.read(body);
    const isKept = await responses.keeps(account, store ?? request.store);
    if (request.background && !isKept) {
      throw errors.unsupportedParameter(
        ['background'],
        fieldText`${['background']} needs a response that is stored: ${['store']} is false, or this account stores nothing.`,
      );
    }
    const said = await history(account.id, request);
    const references = format.referencesOf(body);
    const referred = references.length === 0 ? [] : await responses.findAll(account.id, references);
    const now = clock.now();
    const { conversationId } = request;
    const head = { id: ownId ?? createId('resp', now), createdAt: now, store: isKept, conversationId };
    return { head, body: await format.withReferences(body, referred), ...said };
  }

  async function save(principal: Principal, draft: Draft, answer: Answer): Promise<boolean> {
    const { head, ancestors } = draft;
    const { record, items } = await format.record(draft, answer);
    if (head.store) return responses.save(principal, record, { ancestors, items });
    if (head.conversationId !== undefined) await conversations.append(principal.account, head.conversationId, items);
    return false;
  }

  function runOf(draft: Draft, lastEvent?: number): ResponseRun<Answer> {
    const writer = format.writer(draft, lastEvent);
    return new ResponseRun({
      chat,
      command: format.command(draft),
      writer,
      truncates: format.read(draft.body).truncates,
      isStored: draft.head.store || draft.head.conversationId !== undefined,
      save: async (principal) => writer.setStored(await save(principal, draft, writer.answer())),
    });
  }

  const pendingRequest = ({ request }: PendingResponse): PendingRequest<Body> => JSON.parse(request);
  const headOf = ({ id, createdAt, conversationId }: PendingResponse): ResponseHead => ({
    id,
    createdAt,
    store: true,
    conversationId: conversationId ?? undefined,
  });

  return {
    prepare: ({ account }, body, { store } = {}) => prepare(account, body, store),

    begin: async ({ account }, body, { store } = {}) => runOf(await prepare(account, body, store)),

    async enqueue({ principal, regionPin }, body, run) {
      const { account } = principal;
      const ownId = run && deriveId('resp', run.startedAt, run.billingId);
      const earlier = ownId && (await responses.find(account.id, ownId));
      if (earlier) return { id: earlier.id, answer: format.stored(earlier) };
      const draft = await prepare(account, body, undefined, ownId);
      const { stream, truncates } = format.read(body);
      // Refuses now what would fail later: stored, it would be read again and again. With truncation, no prompt is too long.
      const command = format.command(draft);
      if (!truncates) chat.check({ principal, regionPin }, command);
      const { answer, events } = format.queued(draft);
      const request: PendingRequest<Body> = { body: draft.body, regionPin };
      // Its conversation gets the input with the answer, when it has ended.
      const { record } = await format.record(draft, answer);
      await responses.enqueue(principal, record, await stringifyInSlices(request), {
        ancestors: draft.ancestors,
        events: stream ? events : undefined,
      });
      return { id: draft.head.id, answer };
    },

    async execute(pending, call, record) {
      const { body, regionPin } = pendingRequest(pending);
      const request = format.read(body);
      const draft = { head: headOf(pending), body, ...(await history(pending.accountId, request)) };
      const lastEvent = request.stream ? await eventLog.lastEvent(pending.id) : undefined;
      // An attempt that was interrupted may have recorded a part of another answer: then only the end of the stream will follow.
      const continues = lastEvent !== undefined && lastEvent <= IN_PROGRESS;
      const run = runOf(draft, lastEvent);
      const own = { ...call, regionPin };
      const answer = await (continues ? run.recorded(own, record) : run.whole(own));
      const { record: ended, items } = await format.record(draft, answer);
      return { status: ended.status === 'incomplete' ? 'incomplete' : 'completed', content: ended.content, items };
    },

    failed(pending, error) {
      try {
        const draft = { head: headOf(pending), body: pendingRequest(pending).body, before: [], ancestors: [] };
        return { status: 'failed', content: JSON.stringify(format.failed(draft, error)) };
      } catch {
        // Its request cannot be read, by this version at least. Otherwise it would be tried again and again.
        return { status: 'failed', content: pending.content };
      }
    },
  };
}
