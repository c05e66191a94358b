/** Work that one of all processes on a store does at intervals, such as a sweep. */
export interface JobTurns {
  /** True for one process in each interval: it does the work now. */
  take(job: string, turn: { now: number; everyMs: number }): Promise<boolean>;
}
