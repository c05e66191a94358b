/**
 * How long a busy engine process holds answers back to send several together. Ten answers at once cost the server far less than ten
 * single ones: its code stays in the cache, and one write makes ten ledger rows durable. The wait is short enough that the clients'
 * next requests arrive long before the process runs out of work.
 */
export interface AnswerPace {
  /** A call came to an idle process. */
  begin(): void;
  /** How long to hold an answer while this many other calls wait. 0: send it at once. */
  gapMs(waiting: number): number;
}

/** With fewer waiting calls every answer is sent at once. */
const MIN_WAITING = 8;
/** Share of the time that the waiting calls will take. */
const SHARE_OF_BACKLOG = 1 / 4;
const MAX_GAP_MS = 40;
/** Over how many answers the time for one is smoothed. */
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
