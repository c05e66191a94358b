/** What the server and the decoder process agree on. */

export const SAMPLE_RATE = 16_000;

/** Samples leave the decoder as little-endian float32, this many at a time. */
export const CHUNK_SAMPLES = SAMPLE_RATE;

/** Why a file cannot be used, written as JSON to this file descriptor before the process ends. */
export const FAILURE_DESCRIPTOR = 3;

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
