import type { Clock } from '../ports/clock.ts';
import type { PdfText } from '../services/documents/documents.ts';

interface Entry {
  accountId: string;
  found: PdfText;
  characters: number;
  expiresAt: number;
}

const MAX_CHARACTERS = 16_777_216;
const MAX_AGE_MS = 600_000;
/** What an entry takes beside its text. */
const OVERHEAD_CHARACTERS = 512;

/** The texts that were used last. A file that could not be read is not tried again for as long. */
export function createTextCache(clock: Clock) {
  const entries = new Map<string, Entry>();
  const perAccount = new Map<string, number>();
  let characters = 0;

  function count(accountId: string, more: number): void {
    characters += more;
    const own = (perAccount.get(accountId) ?? 0) + more;
    if (own === 0) perAccount.delete(accountId);
    else perAccount.set(accountId, own);
  }

  function remove(key: string): void {
    const entry = entries.get(key);
    if (entry === undefined) return;
    entries.delete(key);
    count(entry.accountId, -entry.characters);
  }

  /** Makes room at the expense of the account that takes most of it, so that no account can push out the texts of all others. */
  function removeOne(): void {
    const [largest] = [...perAccount].reduce((one, other) => (other[1] > one[1] ? other : one));
    const oldest = entries.entries().find(([, { accountId }]) => accountId === largest);
    if (oldest !== undefined) remove(oldest[0]);
  }

  return {
    get(key: string): PdfText | undefined {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      if (entry.expiresAt <= clock.now()) {
        remove(key);
        return undefined;
      }
      // The last one is the newest.
      entries.delete(key);
      entries.set(key, entry);
      return entry.found;
    },
    set(key: string, accountId: string, found: PdfText): void {
      for (const [each, { expiresAt }] of entries) if (expiresAt <= clock.now()) remove(each);
      remove(key);
      // On a machine with less to do it may be read in time.
      if ('failure' in found && found.failure.reason === 'time') return;
      const length = ('text' in found ? found.text.length : 0) + OVERHEAD_CHARACTERS;
      entries.set(key, { accountId, found, characters: length, expiresAt: clock.now() + MAX_AGE_MS });
      count(accountId, length);
      while (characters > MAX_CHARACTERS) removeOne();
    },
  };
}
