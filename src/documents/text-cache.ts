import type { Clock } from '../ports/clock.ts';
import type { PdfText } from '../services/documents/documents.ts';

interface Entry {
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
  let characters = 0;

  function remove(key: string): void {
    characters -= entries.get(key)?.characters ?? 0;
    entries.delete(key);
  }

  return {
    get(key: string): PdfText | undefined {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      remove(key);
      if (entry.expiresAt <= clock.now()) return undefined;
      entries.set(key, entry);
      characters += entry.characters;
      return entry.found;
    },
    set(key: string, found: PdfText): void {
      for (const [each, { expiresAt }] of entries) if (expiresAt <= clock.now()) remove(each);
      remove(key);
      // On a machine with less to do it may be read in time.
      if ('failure' in found && found.failure.reason === 'time') return;
      const length = ('text' in found ? found.text.length : 0) + OVERHEAD_CHARACTERS;
      entries.set(key, { found, characters: length, expiresAt: clock.now() + MAX_AGE_MS });
      characters += length;
      for (const oldest of entries.keys()) {
        if (characters <= MAX_CHARACTERS) break;
        remove(oldest);
      }
    },
  };
}
