/** The protocol between an engine process and its process that decodes images. */
import type { ImagePreparation } from './preparation.ts';

export interface ImageDecoderArguments {
  preparation: ImagePreparation;
}

/** Before an image: its length, little-endian. */
export const LENGTH_BYTES = 4;
/** Before an answer: the length of its body, and its kind. */
export const ANSWER_HEAD_BYTES = LENGTH_BYTES + 1;

/** The body is the pixels, little-endian floats. */
export const DECODED = 0;
/** The body is an `ImageFailure` as JSON. */
export const REFUSED = 1;
