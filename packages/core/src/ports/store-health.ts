/** Whether the store keeps what is written. */
export interface StoreHealth {
  /** Why nothing can be stored now, in words that everybody may read. Asks the store. */
  problem(): Promise<string | undefined>;
  /** Whether it is known that nothing can be stored now. */
  isAway(): boolean;
  /** Rejects when the work takes long and nothing can be stored. The work goes on, and may succeed: only for what may be repeated. */
  orAway<T>(work: Promise<T>): Promise<T>;
  /**
   * Undefined while the store works. Otherwise resolves when it works again, and rejects when that takes longer than is waited for, or
   * when the signal fires.
   */
  back(signal?: AbortSignal): Promise<void> | undefined;
}
