const LONGEST_MS = 30_000;
/**
 * Python servers close idle connections after 2 or 5 seconds without saying so, and a connection that closes just when it is used costs
 * a retry. Once the other side has closed an idle connection, none is kept for longer than this.
 */
const CAUTIOUS_MS = 4_000;
/** We close this much earlier than the other side. */
const MARGIN_MS = 1_000;
const SHORTEST_MS = 500;
/** A server that restarts closes all connections, whatever their age. What was learnt from it is forgotten after this time. */
const REMEMBERED_MS = 300_000;

/** How long idle connections to one server are kept. Learns from those that the server closes. */
export class KeepTime {
  #longestMs = LONGEST_MS;
  #shortMs = LONGEST_MS;
  #shortUntil = 0;

  longestMs(now: number): number {
    return now < this.#shortUntil ? this.#shortMs : this.#longestMs;
  }

  /** The server has closed a connection after it was idle for this time. */
  learn(idleMs: number, now: number): void {
    const before = this.longestMs(now);
    this.#longestMs = CAUTIOUS_MS;
    // No known server closes connections so soon: it restarts.
    if (idleMs < MARGIN_MS) return;
    this.#shortMs = Math.min(before, Math.max(SHORTEST_MS, idleMs - MARGIN_MS), CAUTIOUS_MS);
    this.#shortUntil = now + REMEMBERED_MS;
  }
}
