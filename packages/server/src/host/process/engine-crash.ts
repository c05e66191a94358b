/** The process ended before it had answered. Clients never see it: the dispatcher retries the call or translates it. */
export class EngineCrash extends Error {
  override readonly name = 'EngineCrash';
  /** Whether the process may have hung on this call; another process would hang on it too. */
  readonly suspect: boolean;

  constructor(reason: string, { suspect = false } = {}) {
    super(reason);
    this.suspect = suspect;
  }
}
