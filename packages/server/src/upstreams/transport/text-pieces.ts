import { StringDecoder } from 'node:string_decoder';

/** Decodes UTF-8 that arrives in pieces, which may cut a character. */
export interface TextPieces {
  add(bytes: Buffer): string;
  /** What is left of a character that was cut off. */
  end(): string;
}

export const createTextPieces = (): TextPieces => new Utf8Pieces();

class Utf8Pieces implements TextPieces {
  #decoder: StringDecoder | undefined;

  add(bytes: Buffer): string {
    // Nearly every piece of an event stream ends with a line break and so cuts nothing.
    if (this.#decoder === undefined && (bytes.at(-1) ?? 0) < 0x80) return bytes.toString('utf8');
    this.#decoder ??= new StringDecoder('utf8');
    return this.#decoder.write(bytes);
  }

  end(): string {
    return this.#decoder?.end() ?? '';
  }
}
