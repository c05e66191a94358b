/** Something that does not work, in words for operators. */
export interface ServerProblem {
  reason: string;
  /** Milliseconds since 1970. */
  since: number;
}

/** What a server says about itself every few seconds. Times are those of the store. */
export interface ServerHeartbeat {
  /** Of the process: a server that starts again has another one. */
  id: string;
  /** Of the machine, with the number of the worker if there are several. */
  name: string;
  version: string;
  /** Of its code, if that is a checkout. */
  commit: string | null;
  startedAt: number;
  seenAt: number;
  readiness: 'ready' | 'degraded' | 'not ready';
  problems: readonly ServerProblem[];
  /** By how much the clock of its machine is ahead. */
  clockAheadMs: number;
}

/** The servers on a store. */
export interface ServerRepository {
  /** Replaces the last heartbeat of this server, and forgets those that were not seen since. */
  beat(heartbeat: ServerHeartbeat, forgetBefore: number): Promise<void>;
  /** By name. */
  list(): Promise<ServerHeartbeat[]>;
  remove(id: string): Promise<void>;
}
