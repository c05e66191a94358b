import { createHash } from 'node:crypto';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { PdfContent, PdfReader, PdfText, ReaderSlots } from '@baobab/core/ports/file-readers.ts';
import { AccountCache } from '@baobab/core/runtime/account-cache.ts';
import { yieldToEventLoop } from '@baobab/core/runtime/time-slices.ts';
import { type PdfLimits, readPdfText } from './pdf-text.ts';

export interface PdfReaderDependencies {
  /** Bounds the reader processes of all requests; each takes about 100 MB. */
  readers: ReaderSlots;
  limits?: Partial<PdfLimits> | undefined;
  clock: Clock;
  readText?: typeof readPdfText;
}

const PIECE_CHARACTERS = 4_194_304;

async function keyOf(content: PdfContent): Promise<string> {
  if ('sha256' in content) return `file ${content.sha256}`;
  const hash = createHash('sha256');
  for (let at = 0; at < content.base64.length; at += PIECE_CHARACTERS) {
    if (at > 0) await yieldToEventLoop();
    hash.update(content.base64.slice(at, at + PIECE_CHARACTERS), 'latin1');
  }
  return `inline ${hash.digest('base64')}`;
}

/** Reads PDF files, each in a process of its own. Clients send the same file with every turn of a chat, so texts are kept for a while. */
export function createPdfReader(dependencies: PdfReaderDependencies): PdfReader {
  const { readers, limits, clock, readText = readPdfText } = dependencies;
  const cache = createTextCache(clock);
  return {
    async read(content, { keeps, ...context }) {
      const key = keeps ? await keyOf(content) : undefined;
      const known = key === undefined ? undefined : cache.get(context.accountId, key);
      if (known !== undefined) return known;
      const permit = await readers.enter(context);
      try {
        const found = await readText(content, { signal: context.signal, limits });
        if (key !== undefined) cache.set(context.accountId, key, found);
        return found;
      } finally {
        permit.release();
      }
    },
  };
}

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
