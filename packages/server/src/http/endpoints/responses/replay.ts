import type { StoredResponse } from '@baobab/core/domain/response.ts';
import type { ChatEvent } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { ResponseEventLog } from '../../../services/responses/event-log.ts';
import type { StreamEvent, WireResponse } from './answer.ts';
import { type ItemEvent, OutputItems } from './items/output-items.ts';
import { fromRecordedEvents } from './recording.ts';
import type { InputItemBody } from './schema.ts';
import { storedResponse } from './stored.ts';
import { customArguments } from './tools.ts';

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
    idPart: response.id.slice(response.id.indexOf('_') + 1),
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

export interface FollowOptions {
  /** Reads the response again; undefined when it was deleted. */
  read(): Promise<StoredResponse | undefined>;
  eventLog: Pick<ResponseEventLog, 'read' | 'news'>;
  /** The client has the events up to this number. */
  after: number;
  signal: AbortSignal;
  write(events: StreamEvent[]): void | Promise<void>;
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

/**
 * Streams a stored response. One that runs in the background is followed to its end: live, if it was created with `stream`. Returns
 * its last events.
 */
export async function followResponse(first: StoredResponse, options: FollowOptions): Promise<StreamEvent[]> {
  const { read, eventLog, after, signal, write } = options;
  const { id } = first;
  let sent = after;
  /** The last event in the log. */
  let logged = -1;
  const send = async (events: readonly StreamEvent[]) => {
    const news = events.filter(({ sequence_number: number }) => number > sent);
    if (news.length > 0) await write(news);
    sent = news.at(-1)?.sequence_number ?? sent;
  };
  for (;;) {
    const { ended, events } = await eventLog.read(id, logged);
    logged = events.at(-1)?.last ?? logged;
    await send(events.flatMap(fromRecordedEvents));
    if (ended) break;
    if (logged === -1) await send(firstEvents(first));
    try {
      await eventLog.news(id, logged, signal);
    } catch {
      throw cancellation(signal);
    }
  }
  const stored = await read();
  if (stored === undefined) throw errors.responseNotFound(id);
  const response = storedResponse(stored);
  if (logged === -1) return replayedEnd(response, sent);
  const end = { type: endingOf(response), response, sequence_number: logged + 1 };
  return end.sequence_number > sent ? [end] : [];
}
