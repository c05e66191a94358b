/** What was done to the cluster, and when. Times are those of `performance.now()`. */
export interface TimelineEvent {
  kind: string;
  text: string;
  startMs: number;
  endMs: number | undefined;
}

export interface Timeline {
  readonly events: readonly TimelineEvent[];
  begin(kind: string, text: string): { end(): void };
  note(text: string): void;
  /** Kinds of the events that ran within this time before the moment. */
  kindsBefore(atMs: number, withinMs: number): Set<string>;
}

export function createTimeline(print: (line: string) => void): Timeline {
  const zeroMs = performance.now();
  const events: TimelineEvent[] = [];
  const note = (text: string) => print(`${((performance.now() - zeroMs) / 1000).toFixed(1).padStart(6)} s  ${text}`);
  return {
    events,
    note,
    begin(kind, text) {
      const event: TimelineEvent = { kind, text, startMs: performance.now(), endMs: undefined };
      events.push(event);
      note(text);
      return {
        end() {
          event.endMs = performance.now();
          note(`    over: ${text}`);
        },
      };
    },
    kindsBefore(atMs, withinMs) {
      const running = events.filter(
        ({ startMs, endMs }) => startMs <= atMs && (endMs === undefined || endMs >= atMs - withinMs),
      );
      return new Set(running.map(({ kind }) => kind));
    },
  };
}
