import type { Clock } from '@baobab/core/ports/clock.ts';
import type { PdfText } from '@baobab/core/ports/file-readers.ts';
import { AccountCache } from '@baobab/core/runtime/account-cache.ts';

interface Entry {
  found: PdfText;
  expiresAt: number;
}

const MAX_CHARACTERS = 16_777_216;
const MAX_AGE_MS = 600_000;

/** The texts that were used last. A file that could not be read is not tried again for as long. */
export function createTextCache(clock: Clock) {
  const cache = new AccountCache<Entry>(MAX_CHARACTERS);
  const isOver = ({ expiresAt }: Entry): boolean => expiresAt <= clock.now();

  return {
    get(accountId: string, key: string): PdfText | undefined {
      const entry = cache.get(accountId, key);
      if (entry === undefined || !isOver(entry)) return entry?.found;
      cache.delete(accountId, key);
      return undefined;
    },
    set(accountId: string, key: string, found: PdfText): void {
      cache.deleteWhere(isOver);
      cache.delete(accountId, key);
      // On a machine with less to do it may be read in time.
      if ('failure' in found && found.failure.reason === 'time') return;
      const value = { found, expiresAt: clock.now() + MAX_AGE_MS };
      cache.set(accountId, key, { value, characters: 'text' in found ? found.text.length : 0 });
    },
  };
}
