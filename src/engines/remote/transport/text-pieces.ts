import { StringDecoder } from 'node:string_decoder';

/** Decodes UTF-8 that arrives in pieces, which may cut a character. */
export interface TextPieces {
  add(bytes: Buffer): string;
  /** What is left of a character that was cut off. */
  end(): string;
}

export function createTextPieces(): TextPieces {
  let decoder: StringDecoder | undefined;
  return {
    add(bytes) {
      // Nearly every piece of an event stream ends with a line break and so cuts nothing.
      if (decoder === undefined && (bytes.at(-1) ?? 0) < 0x80) return bytes.toString('utf8');
      decoder ??= new StringDecoder('utf8');
      return decoder.write(bytes);
    },
    end: () => decoder?.end() ?? '',
  };
}
