import type { Readable } from 'node:stream';
import type { CallContext } from '../engine/engine.ts';

/** A file on disk, or a stream. */
export type AudioSource = { path: string } | { stream: Readable };

/** At most 30 s of mono 16 kHz samples. */
export interface AudioWindow {
  /** Start of the window in the whole audio. */
  startSeconds: number;
  samples: Float32Array<ArrayBuffer>;
}

/** Whether so many seconds of the audio may be decoded. False: it ends before them. */
export type MayDecode = (seconds: number) => boolean | Promise<boolean>;

export interface AudioReader {
  /** Waits for a free decoder. Yields windows as decoding proceeds, and returns the length of what was decoded. */
  read(
    source: AudioSource,
    context: CallContext,
    mayDecode?: MayDecode,
  ): AsyncGenerator<AudioWindow, { durationSeconds: number }>;
}

/** Bounds the reader processes of all requests; each takes about 100 MB. */
export interface ReaderSlots {
  enter(context: Pick<CallContext, 'accountId' | 'keyId' | 'priority' | 'signal'>): Promise<{ release(): void }>;
}

export type PdfContent =
  | { base64: string }
  /** `open` is called when a reader is free. */
  | { sha256: string; open(): Promise<AsyncIterable<Uint8Array>> };

export type PdfFailure =
  | { reason: 'damaged' | 'encrypted' | 'no-text' | 'memory' | 'time' }
  | { reason: 'too-many-pages'; pages: number; limit: number }
  | { reason: 'too-long'; limit: number };

export type PdfText = { text: string } | { failure: PdfFailure };

export interface PdfReadContext extends Pick<CallContext, 'accountId' | 'keyId' | 'priority' | 'signal'> {
  /** Keep the text in memory for the next request with the same file. */
  keeps: boolean;
}

export interface PdfReader {
  /** Waits for its turn. Throws only what is not the fault of the file. */
  read(content: PdfContent, context: PdfReadContext): Promise<PdfText>;
}
