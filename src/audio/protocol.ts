/** The protocol between the server and the decoder process. */

export const SAMPLE_RATE = 16_000;

/** The decoder writes little-endian float32 samples, this many at a time. */
export const CHUNK_SAMPLES = SAMPLE_RATE;

/** On this descriptor the decoder writes `AT_WORK` when its code is loaded, and a `DecodeFailure` as JSON if the file is unusable. */
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
