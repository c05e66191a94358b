import type { RecordedEvents, StoredResponse } from '@baobab/core/domain/response.ts';
import type { ChatEvent } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ResponseEventLog } from '../../../services/responses/event-log.ts';
import type { ResponsesService } from '../../../services/responses/responses.ts';
import { type EventStream, streamedAnswer } from '../../answer/event-stream.ts';
import { createAnswerLimit } from '../../request/answer-limit.ts';
import { disconnectSignal, principalOf } from '../../request/request-record.ts';
import type { ItemEvent } from './open-items.ts';
import { OutputItems } from './output-items.ts';
import type { InputItemBody } from './schema.ts';
import { storedResponse } from './stored-items.ts';
import { customArguments } from './tools.ts';
import { errorEvent, eventText, idPartOf, STREAM_END, type StreamEvent, type WireResponse } from './writer.ts';

const textOf = (content: InputItemBody['content']): string =>
  typeof content === 'string' ? content : (content ?? []).map(({ text }) => text ?? '').join('');

/** The events of a chat that would give this item. */
function itemEvents(item: InputItemBody, index: number): ChatEvent[] {
  const call = (argumentsDelta: string): ChatEvent[] => [
    { type: 'tool-call-delta', index, id: item.call_id ?? '', name: item.name ?? '', argumentsDelta },
  ];
  switch (item.type) {
    case 'message':
      return [{ type: 'text-delta', text: textOf(item.content) }];
    case 'reasoning':
      return [{ type: 'reasoning-delta', text: textOf(item.content) }];
    case 'custom_tool_call':
      return call(customArguments(item.input ?? ''));
    default:
      return call(item.arguments ?? '');
  }
}

const ENDINGS: Readonly<Record<string, string>> = {
  completed: 'response.completed',
  incomplete: 'response.incomplete',
  failed: 'response.failed',
  cancelled: 'response.failed',
};

const endingOf = ({ status }: WireResponse): string => ENDINGS[status] ?? 'response.completed';

/** The stream of a response that has ended, with one delta for each item. */
function replayEvents(response: WireResponse): StreamEvent[] {
  const output = response.output as InputItemBody[];
  const items = new OutputItems({
    idPart: idPartOf(response.id),
    customTools: new Set(output.flatMap(({ type, name }) => (type === 'custom_tool_call' && name ? [name] : []))),
    withLogprobs: false,
    sealsReasoning: output.some(({ encrypted_content: sealed }) => Boolean(sealed)),
    summarizes: output.some(({ summary }) => (summary?.length ?? 0) > 0),
  });
  const begun = { ...response, status: 'in_progress', output: [], usage: null, completed_at: null, error: null };
  const events: ItemEvent[] = [
    { type: 'response.created', response: begun },
    { type: 'response.in_progress', response: begun },
    ...output.flatMap(itemEvents).flatMap((event) => items.take(event)),
    ...items.end(response.status === 'incomplete' ? 'incomplete' : 'completed'),
    { type: endingOf(response), response },
  ];
  return events.map((event, sequence_number) => ({ ...event, sequence_number }));
}

/** What a client sees of a response whose events are not recorded, until it ends. */
function firstEvents(stored: StoredResponse): StreamEvent[] {
  const response = storedResponse(stored);
  const type = stored.status === 'queued' ? 'response.queued' : 'response.in_progress';
  return [
    { type: 'response.created', response, sequence_number: 0 },
    { type, response, sequence_number: 1 },
  ];
}

/** The last events of a response whose events are not recorded: with one delta for each item. */
function replayedEnd(response: WireResponse, sent: number): StreamEvent[] {
  const events = replayEvents(response);
  const rest = events.filter(({ sequence_number: number }) => number > sent);
  const last = events.at(-1);
  // The client may have seen more events than a replay has. It still needs the last one.
  return rest.length > 0 || last === undefined ? rest : [{ ...last, sequence_number: sent + 1 }];
}

/** An event as it is sent. */
interface WrittenEvent {
  number: number;
  text: string;
}

const written = (event: StreamEvent): WrittenEvent => ({ number: event.sequence_number, text: eventText(event) });

/** An event ends with an empty line, and JSON has no line breaks. */
const fromLog = ({ first, content }: RecordedEvents): WrittenEvent[] =>
  content.split(/(?<=\n\n)/).map((text, index) => ({ number: first + index, text }));

/** Streams of stored responses of one account. Each reads what is new from the store by itself. */
const MAX_FOLLOWERS = 128;

export interface FollowerDependencies {
  responses: Pick<ResponsesService, 'get' | 'find'>;
  eventLog: ResponseEventLog;
}

/** One stream of a stored response. */
class Following {
  /** The client has the events up to this number. */
  sent: number;
  readonly #first: StoredResponse;
  readonly #eventLog: Pick<ResponseEventLog, 'read' | 'news'>;
  readonly #events: EventStream;

  constructor(first: StoredResponse, after: number, eventLog: ResponseEventLog, events: EventStream) {
    this.#first = first;
    this.sent = after;
    this.#eventLog = eventLog;
    this.#events = events;
  }

  /**
   * Follows a response to its end, if it runs in the background: live, if it was created with `stream`. Returns its last events.
   * `read` gets it again; undefined when it was deleted.
   */
  async toItsEnd(signal: AbortSignal, read: () => Promise<StoredResponse | undefined>): Promise<string> {
    const { id } = this.#first;
    /** The last event in the log. */
    let logged = -1;
    for (;;) {
      const { ended, events } = await this.#eventLog.read(id, logged);
      logged = events.at(-1)?.last ?? logged;
      await this.#send(events.flatMap(fromLog));
      if (ended) break;
      if (logged === -1) await this.#send(firstEvents(this.#first).map(written));
      try {
        await this.#eventLog.news(id, logged, signal);
      } catch {
        throw cancellation(signal);
      }
    }
    const stored = await read();
    if (stored === undefined) throw errors.responseNotFound(id);
    const response = storedResponse(stored);
    if (logged === -1) return replayedEnd(response, this.sent).map(eventText).join('');
    const end = { type: endingOf(response), response, sequence_number: logged + 1 };
    return end.sequence_number > this.sent ? eventText(end) : '';
  }

  async #send(events: readonly WrittenEvent[]): Promise<void> {
    const news = events.filter(({ number }) => number > this.sent);
    if (news.length === 0) return;
    this.sent = news.at(-1)?.number ?? this.sent;
    await this.#events.write(news.map(({ text }) => text).join(''));
  }
}

export function createFollower({ responses, eventLog }: FollowerDependencies) {
  return {
    /** Throws 429 when the account follows too many responses. Call it before `follow`. */
    limit: createAnswerLimit(MAX_FOLLOWERS, 'streams of stored responses of this account are open'),

    /** Streams a stored response to its end. */
    async follow(request: FastifyRequest, reply: FastifyReply, id: string, after = -1) {
      const accountId = principalOf(request).account.id;
      const first = await responses.get(accountId, id);
      let following: Following | undefined;
      return streamedAnswer(
        request,
        reply,
        async (events) => {
          following = new Following(first, after, eventLog, events);
          const read = () => responses.find(accountId, id);
          return (await following.toItsEnd(disconnectSignal(reply), read)) + STREAM_END;
        },
        // The response may go on: only this stream of it has failed.
        (failure) => eventText(errorEvent(failure, (following?.sent ?? after) + 1)) + STREAM_END,
      );
    },
  };
}

export type Follower = ReturnType<typeof createFollower>;
