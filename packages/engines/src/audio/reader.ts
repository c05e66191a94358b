import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { CallContext } from '@baobab/core/engine/engine.ts';
import type { AudioReader, ReaderSlots } from '@baobab/core/ports/file-readers.ts';
import { type DecodeLimits, decodeAudio } from './decode.ts';
import { cutWindows } from './windows.ts';

export interface AudioReaderDependencies {
  /** Streams are stored here while they are decoded, because an m4a may have its table of contents at the end. */
  temporaryDirectory: string;
  limits?: Partial<DecodeLimits> | undefined;
  /** Bounds the decoder processes of all requests; each takes about 100 MB. */
  decoders: ReaderSlots;
  decode?: typeof decodeAudio;
}

export function createAudioReader(dependencies: AudioReaderDependencies): AudioReader {
  const { temporaryDirectory, limits, decoders, decode = decodeAudio } = dependencies;

  async function* readFile(path: string, context: CallContext) {
    const permit = await decoders.enter(context);
    try {
      return yield* cutWindows(decode(path, { signal: context.signal, limits }));
    } finally {
      permit.release();
    }
  }

  return {
    async *read(source, context) {
      if ('path' in source) return yield* readFile(source.path, context);
      await mkdir(temporaryDirectory, { recursive: true });
      const path = join(temporaryDirectory, `audio-${randomUUID()}`);
      try {
        await pipeline(source.stream, createWriteStream(path, { mode: 0o600 }), { signal: context.signal });
        return yield* readFile(path, context);
      } finally {
        await rm(path, { force: true });
      }
    },
  };
}
