/** What the server and the decoder process agree on. */

export const SAMPLE_RATE = 16_000;

/** Samples leave the decoder as little-endian float32, this many at a time. */
export const CHUNK_SAMPLES = SAMPLE_RATE;

/** Here the decoder says `AT_WORK` as soon as its code is loaded and, before it ends, why a file cannot be used, as JSON. */
export const REPORT_DESCRIPTOR = 3;
export const AT_WORK = '\n';

export type DecodeFailure =
  | { reason: 'unknown-format' }
  | { reason: 'no-audio' }
  | { reason: 'unsupported-codec'; codec: string }
  | { reason: 'corrupt' }
  | { reason: 'too-long'; limitSeconds: number };

export interface DecoderArguments {
  path: string;
  maxSeconds: number;
}
