import type { RecordedEvents } from '@baobab/core/domain/response.ts';
import type { OwnedResponse, ResponseRepository } from '@baobab/core/ports/responses.ts';
import { untilAborted } from '@baobab/core/runtime/abort.ts';

/** Events of background responses. They are stored, so that every server can follow a response that another one works on. */
export interface ResponseEventLog {
  /** False when the response is no longer the owner's. */
  record(response: OwnedResponse, events: RecordedEvents): Promise<boolean>;
  /** What was recorded after this sequence number. `ended`: nothing will follow. */
  read(id: string, after: number): Promise<{ ended: boolean; events: RecordedEvents[] }>;
  lastEvent(id: string): Promise<number | undefined>;
  /** Resolves when more may be recorded, or the response has ended: at once in this process, after a short time in others. */
  news(id: string, after: number, signal: AbortSignal): Promise<void>;
  /** Call it when a response has ended in this process. */
  changed(id: string): void;
}

export interface ResponseEventLogDependencies {
  responses: Pick<ResponseRepository, 'record' | 'events' | 'lastEvents' | 'active'>;
}

/** Events of other processes are seen after this time, and that of a look into the store. */
const LOOK_MS = 250;

/** A response that is followed here. */
interface Followed extends PromiseWithResolvers<void> {
  followers: number;
  /** All of them have the events up to this number. */
  after: number;
}

export function createResponseEventLog({ responses }: ResponseEventLogDependencies): ResponseEventLog {
  const followed = new Map<string, Followed>();
  let isDue = false;

  function changed(id: string): void {
    followed.get(id)?.resolve();
    followed.delete(id);
  }

  /** One look for all followers, however many there are. */
  async function look(): Promise<void> {
    const ids = [...followed.keys()];
    try {
      const [active, last] = await Promise.all([responses.active(ids), responses.lastEvents(ids)]);
      const hasNews = (id: string) => !active.has(id) || (last.get(id) ?? -1) > (followed.get(id)?.after ?? -1);
      for (const id of ids.filter(hasNews)) changed(id);
    } catch {
      // They fail when they read, and tell their clients.
      for (const id of ids) changed(id);
    }
    isDue = false;
    lookLater();
  }

  function lookLater(): void {
    if (isDue || followed.size === 0) return;
    isDue = true;
    setTimeout(look, LOOK_MS);
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

    lastEvent: async (id) => (await responses.lastEvents([id])).get(id),

    async news(id, after, signal) {
      const waiting = followed.get(id) ?? { ...Promise.withResolvers<void>(), followers: 0, after };
      followed.set(id, waiting);
      waiting.followers += 1;
      waiting.after = Math.min(waiting.after, after);
      lookLater();
      try {
        await untilAborted(waiting.promise, signal);
      } finally {
        waiting.followers -= 1;
        if (waiting.followers === 0 && followed.get(id) === waiting) followed.delete(id);
      }
    },

    changed,
  };
}
