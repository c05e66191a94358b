/** The protocol between the server and the decoder process. */

export const SAMPLE_RATE = 16_000;

/** The decoder writes little-endian float32 samples, this many at a time. */
export const CHUNK_SAMPLES = SAMPLE_RATE;

export type DecodeFailure =
  | { reason: 'unknown-format' }
  | { reason: 'no-audio' }
  | { reason: 'unsupported-codec'; codec: string }
  | { reason: 'corrupt' }
  | { reason: 'too-long'; limitSeconds: number };

/** The file is the standard input. */
export interface DecoderArguments {
  /** The size of the file. */
  bytes: number;
  maxSeconds: number;
}
