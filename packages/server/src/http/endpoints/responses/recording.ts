import type { RecordedEvents } from '@baobab/core/domain/response.ts';
import type { StreamEvent } from './answer.ts';

/** Deltas that arrive within this time are recorded as one, so that a quick model does not cause a write for every token. */
export const GATHER_MS = 200;

/** The sequence number of `response.in_progress`, after `response.created` and `response.queued`. */
const IN_PROGRESS = 2;

/**
 * Whether the recorded stream of a response can be continued. An earlier attempt that was interrupted may have recorded a part of
 * another answer: then only the end of the stream will follow.
 */
export const canContinue = (lastEvent: number | undefined): lastEvent is number =>
  lastEvent !== undefined && lastEvent <= IN_PROGRESS;

export function toRecordedEvents(events: readonly StreamEvent[]): RecordedEvents {
  const [first, last] = [events[0]?.sequence_number ?? 0, events.at(-1)?.sequence_number ?? 0];
  return { first, last, content: JSON.stringify(events) };
}

export const fromRecordedEvents = ({ content }: RecordedEvents): StreamEvent[] => JSON.parse(content);
