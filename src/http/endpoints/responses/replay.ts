import { setTimeout as pause } from 'node:timers/promises';
import { isActiveResponse, type StoredResponse } from '../../../domain/response.ts';
import type { ChatEvent } from '../../../engines/engine.ts';
import { cancellation } from '../../../errors/cancellation.ts';
import type { StreamEvent, WireResponse } from './answer.ts';
import { createOutputItems, type ItemEvent } from './items.ts';
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

/** The stream of a response that has ended, with one delta for each item. */
export function replayEvents(response: WireResponse): StreamEvent[] {
  const output = response.output as InputItemBody[];
  const items = createOutputItems({
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
    { type: ENDINGS[response.status] ?? 'response.completed', response },
  ];
  return events.map((event, sequence_number) => ({ ...event, sequence_number }));
}

const POLL_MS = 250;

export interface FollowOptions {
  /** Reads the response again; undefined when it was deleted. */
  read(): Promise<StoredResponse | undefined>;
  /** The client has the events up to this number. */
  after: number;
  signal: AbortSignal;
  write(events: StreamEvent[]): void | Promise<void>;
}

/** Streams a stored response. One that runs in the background is followed to its end. Returns its last events. */
export async function followResponse(first: StoredResponse, options: FollowOptions): Promise<StreamEvent[]> {
  const { read, after, signal, write } = options;
  let current = first;
  let sent = after;
  if (isActiveResponse(current.status) && sent < 0) {
    const response = storedResponse(current);
    await write([
      { type: 'response.created', response, sequence_number: 0 },
      { type: current.status === 'queued' ? 'response.queued' : 'response.in_progress', response, sequence_number: 1 },
    ]);
    sent = 1;
  }
  while (isActiveResponse(current.status)) {
    try {
      await pause(POLL_MS, undefined, { signal });
    } catch {
      throw cancellation(signal);
    }
    const next = await read();
    if (next === undefined) return [];
    current = next;
  }
  const events = replayEvents(storedResponse(current));
  const rest = events.filter(({ sequence_number: number }) => number > sent);
  const last = events.at(-1);
  // The client may have seen more events than a replay has. It still needs the last one.
  return rest.length > 0 || last === undefined ? rest : [{ ...last, sequence_number: sent + 1 }];
}
