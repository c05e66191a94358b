import { errors } from '@baobab/core/errors/errors.ts';
import { parseJson } from './parse-json.ts';

export const QUOTE = 34;
export const COMMA = 44;
export const COLON = 58;
export const OPEN_ARRAY = 91;
export const CLOSE_ARRAY = 93;
export const OPEN_OBJECT = 123;
export const CLOSE_OBJECT = 125;
const BACKSLASH = 92;
const LETTER_U = 117;
const ESCAPE_BYTES = 2;
const UNICODE_ESCAPE_BYTES = 6;
/** How much of the following text an error can show. */
const SHOWN_BYTES = 32;
const MAX_MESSAGE_LENGTH = 200;

const byteSet = (bytes: readonly number[]): Uint8Array => {
  const set = new Uint8Array(256);
  for (const byte of bytes) set[byte] = 1;
  return set;
};

const MARKS = [QUOTE, COLON, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT];
/** The bytes that give a text its structure. */
export const ALL_MARKS = byteSet([...MARKS, COMMA]);
export const MARKS_WITHOUT_COMMA = byteSet(MARKS);

const isSpace = (byte: number | undefined): boolean => byte === 32 || byte === 10 || byte === 13 || byte === 9;
const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;

/** This much of a string is read byte by byte: a search is many times faster but slow to start. */
const NEAR_BYTES = 64;

/** The length up to the first quote or escape. */
function plainBytes(part: Buffer): number {
  const quote = part.indexOf(QUOTE);
  const plain = quote === -1 ? part : part.subarray(0, quote);
  const backslash = plain.indexOf(BACKSLASH);
  return backslash === -1 ? plain.length : backslash;
}

const FIRST_BYTES = 524_288;

export type JsonText = ReturnType<typeof createJsonText>;

/** A window on the text of a body that is still arriving. Places count from the start of the window. */
export function createJsonText() {
  let bytes: Buffer = Buffer.allocUnsafe(FIRST_BYTES);
  let end = 0;
  /** How much of the text has left the window. */
  let dropped = 0;

  function unexpected(place: number): Error {
    if (place >= end) return errors.invalidJson('Unexpected end of JSON input');
    const token = bytes.toString('latin1', place, place + 1);
    return errors.invalidJson(`Unexpected token '${token}' in JSON at byte ${dropped + place}`);
  }

  /** Writes the two bytes into the window for a moment: to concatenate would copy the text once more. */
  function decode(start: number, stop: number, opening: number, closing: number): string {
    const [before, after] = [bytes[start - 1] as number, bytes[stop] as number];
    bytes[start - 1] = opening;
    bytes[stop] = closing;
    const text = bytes.toString('utf8', start - 1, stop + 1);
    bytes[start - 1] = before;
    bytes[stop] = after;
    return text;
  }

  /** The message of JSON.parse, given the following text too. */
  function refusal(start: number, stop: number, opening: number): Error {
    const text = String.fromCharCode(opening) + bytes.toString('utf8', start, Math.min(stop + SHOWN_BYTES, end));
    try {
      JSON.parse(text);
    } catch (error) {
      const message = (error as Error).message.replace(/at position (\d+).*/, (_, position: string) => {
        const place = start - 1 + Buffer.byteLength(text.slice(0, Number(position)));
        return `at byte ${dropped + place}`;
      });
      return errors.invalidJson(message.slice(0, MAX_MESSAGE_LENGTH));
    }
    return unexpected(stop);
  }

  return {
    unexpected,
    end: () => end,
    at: (place: number): number | undefined => bytes[place],
    /** The place in the whole text, for messages. */
    offsetOf: (place: number): number => dropped + place,

    /** Drops the text before `keep` and adds the chunks. */
    append(chunks: readonly Buffer[], keep: number): void {
      const wanted = end - keep + chunks.reduce((sum, chunk) => sum + chunk.length, 0);
      // With room for one more byte: `parse` may write a closing byte behind the text.
      const target = wanted < bytes.length ? bytes : Buffer.allocUnsafe(wanted * 2);
      bytes.copy(target, 0, keep, end);
      bytes = target;
      dropped += keep;
      end -= keep;
      for (const chunk of chunks) end += chunk.copy(bytes, end);
    },

    /** Parses the text from `start` to `stop` between two other bytes, such as brackets. */
    parse(start: number, stop: number, opening: number, closing: number): unknown {
      try {
        return parseJson(decode(start, stop, opening, closing));
      } catch {
        throw refusal(start, stop, opening);
      }
    },
    /** The first place from here that is not white space. */
    afterSpace(start: number): number {
      let place = start;
      while (place < end && isSpace(bytes[place])) place += 1;
      return place;
    },
    /** The start of the white space that ends here. */
    beforeSpace(stop: number): number {
      let place = stop;
      while (isSpace(bytes[place - 1])) place -= 1;
      return place;
    },
    nextMark(start: number, limit: number, marks: Uint8Array): number {
      const text = bytes;
      let place = start;
      while (place < limit && marks[text[place] as number] === 0) place += 1;
      return place;
    },
    /** The closing quote of a string; or, at `limit` or past it, a place to cut it that is not inside an escape or a character. */
    endOfString(start: number, limit: number): number {
      const text = bytes;
      let place = start;
      while (place < limit && text[place] !== QUOTE) {
        const near = Math.min(limit, place + NEAR_BYTES);
        while (place < near && text[place] !== QUOTE) {
          if (text[place] !== BACKSLASH) place += 1;
          else place += text[place + 1] === LETTER_U ? UNICODE_ESCAPE_BYTES : ESCAPE_BYTES;
        }
        if (place >= near && place < limit) place += plainBytes(text.subarray(place, limit));
      }
      // A character has at most three continuation bytes.
      for (let more = 0; more < 3 && place >= limit && isContinuation(text[place]); more += 1) place += 1;
      return place;
    },
  };
}
