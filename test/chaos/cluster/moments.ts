/** What a fault can wait for, so that it hits a replica in the middle of it. */
export type Moment =
  | 'call'
  | 'stream'
  | 'background-created'
  | 'background'
  | 'batch-created'
  | 'batch'
  | 'batch-end'
  | 'upload';

export interface Moments {
  /** On this replica, if that is known. */
  happened(moment: Moment, replica?: number): void;
  /** The replica on which it happens next; undefined if it does not within this time, or nobody knows where. */
  next(moment: Moment, withinMs: number): Promise<number | undefined>;
}

export function createMoments(): Moments {
  const waiting = new Map<Moment, ((replica: number | undefined) => void)[]>();
  return {
    happened(moment, replica) {
      const all = waiting.get(moment) ?? [];
      waiting.delete(moment);
      for (const tell of all) tell(replica);
    },
    next: (moment, withinMs) =>
      new Promise((resolve) => {
        const timer = setTimeout(() => resolve(undefined), withinMs);
        const tell = (replica: number | undefined) => {
          clearTimeout(timer);
          resolve(replica);
        };
        waiting.set(moment, [...(waiting.get(moment) ?? []), tell]);
      }),
  };
}
