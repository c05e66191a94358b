/** What an entry takes beside its texts. */
const OVERHEAD_CHARACTERS = 512;

interface Entry<T> {
  value: T;
  characters: number;
}

/** The entry that was not used for longest comes first. */
interface Share<T> {
  entries: Map<string, Entry<T>>;
  characters: number;
}

/**
 * A cache of texts that no account can read or push out of another one's share: when it is full, the account that takes most of it
 * loses the entry that it has not used for longest.
 */
export class AccountCache<T> {
  readonly #maxCharacters: number;
  readonly #shares = new Map<string, Share<T>>();
  #characters = 0;

  constructor(maxCharacters: number) {
    this.#maxCharacters = maxCharacters;
  }

  get(accountId: string, key: string): T | undefined {
    const entries = this.#shares.get(accountId)?.entries;
    const entry = entries?.get(key);
    if (entries === undefined || entry === undefined) return undefined;
    entries.delete(key);
    entries.set(key, entry);
    return entry.value;
  }

  /** `characters`: of the texts in key and value. */
  set(accountId: string, key: string, { value, characters: ofTexts }: Entry<T>): void {
    this.delete(accountId, key);
    const characters = ofTexts + OVERHEAD_CHARACTERS;
    const share = this.#shares.get(accountId) ?? { entries: new Map(), characters: 0 };
    this.#shares.set(accountId, share);
    share.entries.set(key, { value, characters });
    share.characters += characters;
    this.#characters += characters;
    while (this.#characters > this.#maxCharacters) this.#deleteOne();
  }

  delete(accountId: string, key: string): void {
    const share = this.#shares.get(accountId);
    const entry = share?.entries.get(key);
    if (share === undefined || entry === undefined) return;
    share.entries.delete(key);
    share.characters -= entry.characters;
    this.#characters -= entry.characters;
    if (share.entries.size === 0) this.#shares.delete(accountId);
  }

  deleteWhere(test: (value: T) => boolean): void {
    for (const [accountId, { entries }] of this.#shares) {
      for (const [key, { value }] of entries) if (test(value)) this.delete(accountId, key);
    }
  }

  #deleteOne(): void {
    const [accountId, { entries }] = [...this.#shares].reduce((one, other) =>
      other[1].characters > one[1].characters ? other : one,
    );
    const [oldest] = entries.keys();
    if (oldest !== undefined) this.delete(accountId, oldest);
  }
}
