import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type DecodeLimits, decodeAudio } from './decode.ts';
import { type AudioWindow, cutWindows } from './windows.ts';

/** A file on disk, or a stream. */
export type AudioSource = { path: string } | { stream: Readable };

export interface AudioReader {
  /** Yields windows as decoding proceeds, and returns the length of the audio. */
  read(source: AudioSource, signal: AbortSignal): AsyncGenerator<AudioWindow, { durationSeconds: number }>;
}

export interface AudioReaderDependencies {
  /** Streams are stored here while they are decoded, because an m4a may have its table of contents at the end. */
  temporaryDirectory: string;
  limits?: Partial<DecodeLimits> | undefined;
}

export function createAudioReader({ temporaryDirectory, limits }: AudioReaderDependencies): AudioReader {
  return {
    async *read(source, signal) {
      if ('path' in source) return yield* cutWindows(decodeAudio(source.path, { signal, limits }));
      await mkdir(temporaryDirectory, { recursive: true });
      const path = join(temporaryDirectory, `audio-${randomUUID()}`);
      try {
        await pipeline(source.stream, createWriteStream(path, { mode: 0o600 }), { signal });
        return yield* cutWindows(decodeAudio(path, { signal, limits }));
      } finally {
        await rm(path, { force: true });
      }
    },
  };
}
