import { createHash } from 'node:crypto';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { PdfContent, PdfReader, ReaderSlots } from '@baobab/core/ports/file-readers.ts';
import { yieldToEventLoop } from '@baobab/core/runtime/time-slices.ts';
import { type PdfLimits, readPdfText } from './pdf-text.ts';
import { createTextCache } from './text-cache.ts';

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
