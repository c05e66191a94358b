/** A person who signed in with a key. The secret is in a cookie of their browser; only its hash is stored. */
export interface Session {
  /** SHA-256 of the secret, in hex. */
  hash: string;
  keyId: string;
  /** Milliseconds since 1970, like `expiresAt`. */
  createdAt: number;
  expiresAt: number;
}

export interface SessionRepository {
  /** Removes the oldest sessions of the key when it has more than `maxPerKey`. */
  create(session: Session, options: { maxPerKey: number }): Promise<void>;
  find(hash: string): Promise<Session | undefined>;
  renew(hash: string, expiresAt: number): Promise<void>;
  remove(hash: string): Promise<void>;
  removeExpired(now: number): Promise<void>;
}
