import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EmbeddingInput, ImageInput, TextInput } from '../engine.ts';

/** An image whose data URL travels behind the header, like other long texts. */
export type WireImage = Omit<ImageInput, 'url'>;

export interface SplitInputs {
  inputs: readonly (TextInput | WireImage)[];
  /** Lengths of the data URLs, in the order of the images. */
  byteLengths: readonly number[];
  body: Uint8Array;
}

/** About a millisecond. */
const PIECE_CHARS = 1_048_576;

/** Data URLs are ASCII; any other character makes the image unreadable, here or there. */
export async function splitImages(inputs: readonly EmbeddingInput[]): Promise<SplitInputs> {
  const urls: string[] = [];
  const rest = inputs.map((input) => {
    if (typeof input !== 'object' || !('url' in input)) return input;
    const { url, ...image } = input;
    urls.push(url);
    return image;
  });
  const byteLengths = urls.map((url) => url.length);
  const body = Buffer.allocUnsafe(byteLengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  for (const url of urls) {
    for (let from = 0; from < url.length; from += PIECE_CHARS) {
      at += body.write(url.slice(from, from + PIECE_CHARS), at, 'latin1');
      if (url.length > PIECE_CHARS) await nextTurn();
    }
  }
  return { inputs: rest, byteLengths, body };
}

export function joinImages({ inputs, byteLengths, body }: SplitInputs): EmbeddingInput[] {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  let image = 0;
  let at = 0;
  return inputs.map((input) => {
    if (typeof input !== 'object' || !('tokens' in input)) return input;
    const end = at + (byteLengths[image++] ?? 0);
    const url = bytes.toString('latin1', at, end);
    at = end;
    return { ...input, url };
  });
}
