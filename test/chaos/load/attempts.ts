/**
 * What a client knows about one request it sent. Acknowledged: the whole answer arrived. Refused: the server said that it did nothing.
 * Failed: anything may have happened.
 */
export interface Attempt {
  account: string;
  kind: string;
  outcome: 'acknowledged' | 'refused' | 'failed';
  requestId: string | undefined;
  /** Status and code, or the error of the connection. */
  reason: string;
  promptTokens: number;
  completionTokens: number;
  startMs: number;
  endMs: number;
}

/** What the clients of all lanes did. */
export interface Attempts {
  readonly all: readonly Attempt[];
  add(attempt: Attempt): void;
  /** How many failed so far. */
  failed(): number;
  of(account: string): readonly Attempt[];
}

export function createAttempts(): Attempts {
  const all: Attempt[] = [];
  let failures = 0;
  const byAccount = new Map<string, Attempt[]>();
  return {
    all,
    add(attempt) {
      all.push(attempt);
      if (attempt.outcome === 'failed') failures += 1;
      const own = byAccount.get(attempt.account);
      if (own === undefined) byAccount.set(attempt.account, [attempt]);
      else own.push(attempt);
    },
    failed: () => failures,
    of: (account) => byAccount.get(account) ?? [],
  };
}
