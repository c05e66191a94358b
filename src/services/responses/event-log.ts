import { setTimeout as pause } from 'node:timers/promises';
import type { RecordedEvents } from '../../domain/response.ts';
import type { OwnedResponse, ResponseRepository } from '../../ports/responses.ts';

/** Events of background responses. They are stored, so that every server can follow a response that another one works on. */
export interface ResponseEventLog {
  /** False when the response is no longer the owner's. */
  record(response: OwnedResponse, events: RecordedEvents): Promise<boolean>;
  /** What was recorded after this sequence number. `ended`: nothing will follow. */
  read(id: string, after: number): Promise<{ ended: boolean; events: RecordedEvents[] }>;
  lastEvent(id: string): Promise<number | undefined>;
  /** Resolves when there may be news: at once for those of this process, after a short time for others. Rejects when aborted. */
  news(id: string, signal: AbortSignal): Promise<void>;
  /** Call it when a response has ended in this process. */
  changed(id: string): void;
}

export interface ResponseEventLogDependencies {
  responses: Pick<ResponseRepository, 'record' | 'events' | 'lastEvent' | 'active'>;
}

/** Events of other processes are seen after this time at most. */
const POLL_MS = 250;

export function createResponseEventLog({ responses }: ResponseEventLogDependencies): ResponseEventLog {
  /** One waiting promise for each response that is followed here. */
  const followed = new Map<string, { promise: Promise<void>; resolve(): void; count: number }>();

  function changed(id: string): void {
    followed.get(id)?.resolve();
    followed.delete(id);
  }

  return {
    async record(response, events) {
      const isRecorded = await responses.record(response, events);
      changed(response.id);
      return isRecorded;
    },

    async read(id, after) {
      // In this order: everything was recorded before the response ended.
      const ended = !(await responses.active([id])).has(id);
      return { ended, events: await responses.events(id, after) };
    },

    lastEvent: (id) => responses.lastEvent(id),

    async news(id, signal) {
      const waiting = followed.get(id) ?? { ...Promise.withResolvers<void>(), count: 0 };
      followed.set(id, waiting);
      waiting.count += 1;
      const timeout = new AbortController();
      try {
        const timed = pause(POLL_MS, undefined, { signal: AbortSignal.any([signal, timeout.signal]) });
        await Promise.race([timed, waiting.promise.then(() => signal.throwIfAborted())]);
      } finally {
        timeout.abort();
        waiting.count -= 1;
        if (waiting.count === 0 && followed.get(id) === waiting) followed.delete(id);
      }
    },

    changed,
  };
}
