/**
 * How far apart answers leave a busy engine process. Ten answers in one go cost the server far less than ten times one: its code
 * stays in the cache, and one write makes ten ledger rows durable. So while many calls wait here, answers wait for each other, but
 * only for so short a time that the next requests of their clients come long before the process runs out of work.
 */
export interface AnswerPace {
  /** A call came to an idle process. */
  begin(): void;
  /** For an answer that leaves so many calls behind. 0: at once. */
  gapMs(waiting: number): number;
}

/** With fewer calls at hand every answer leaves at once. */
const MIN_WAITING = 8;
/** Of the time that the waiting calls will take. */
const SHARE_OF_BACKLOG = 1 / 4;
const MAX_GAP_MS = 40;
/** How many answers the smoothed time for one goes back. */
const MEMORY = 16;

export function createAnswerPace(now: () => number = () => performance.now()): AnswerPace {
  let lastAt = now();
  let callMs = 0;

  return {
    begin() {
      lastAt = now();
    },
    gapMs(waiting) {
      const at = now();
      callMs += (at - lastAt - callMs) / MEMORY;
      lastAt = at;
      return waiting < MIN_WAITING ? 0 : Math.min(MAX_GAP_MS, waiting * callMs * SHARE_OF_BACKLOG);
    },
  };
}
