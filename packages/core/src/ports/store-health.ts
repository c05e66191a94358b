/** Whether the store keeps what is written. */
export interface StoreHealth {
  /** Why nothing can be stored now, in words that everybody may read. Asks the store. */
  problem(): Promise<string | undefined>;
  /** Whether it is known that nothing can be stored now. */
  isAway(): boolean;
  /**
   * Undefined while the store works. Otherwise resolves when it works again, and rejects when that takes longer than is waited for, or
   * when the signal fires.
   */
  back(signal?: AbortSignal): Promise<void> | undefined;
}
