/**
 * The short words of a vocabulary. Most of a text consists of them. Finding one here reads one cache line, where the tree of characters
 * reads one for each letter.
 */
export interface WordTable {
  /** Id of the entry equal to this part of the text, or -1: not an entry, too long, or not ASCII. */
  find(text: string, from: number, to: number): number;
}

/** Four letters to a number, three numbers to a key: the key is the word itself, so nothing else need be compared. */
const MAX_LETTERS = 12;
const KEY_NUMBERS = 3;
/** The key and the id. */
const FIELDS = KEY_NUMBERS + 1;
const NOWHERE = -1;

/** With `ignoreCase` the capital ASCII letters of a text are read as small ones. */
export function createWordTable(words: Iterable<readonly [string, number]>, ignoreCase: boolean): WordTable {
  const letters = Uint8Array.from({ length: 128 }, (_, code) => code);
  const fitting = [...words].filter(([word]) => word.length <= MAX_LETTERS && /^[!-~]+$/.test(word));
  // At most half full, so that a search ends soon.
  const slots = 1 << Math.max(4, Math.ceil(Math.log2(fitting.length * 2)));
  const mask = slots - 1;
  const shift = Math.clz32(mask);
  const table = new Int32Array(slots * FIELDS);
  const missingKey = new Int32Array(KEY_NUMBERS);

  const isFree = (place: number) => table[place] === 0;

  /** The place of a word. If it is missing: a free place, with its key in `missingKey`. NOWHERE: it cannot be an entry. */
  function placeOf(text: string, from: number, to: number): number {
    if (to - from > MAX_LETTERS) return NOWHERE;
    let first = 0;
    let second = 0;
    let third = 0;
    for (let i = from; i < to; i++) {
      const code = text.charCodeAt(i);
      if (code === 0 || code > 127) return NOWHERE;
      third = (third << 8) | (second >>> 24);
      second = (second << 8) | (first >>> 24);
      first = (first << 8) | (letters[code] as number);
    }
    const mixed = Math.imul(first, 0x9e3779b1) ^ Math.imul(second, 0x85ebca6b) ^ Math.imul(third, 0xc2b2ae35);
    // The high bits of a product are the well mixed ones.
    let slot = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d) >>> shift;
    let place = slot * FIELDS;
    while (!isFree(place)) {
      if (table[place] === first && table[place + 1] === second && table[place + 2] === third) return place;
      slot = (slot + 1) & mask;
      place = slot * FIELDS;
    }
    missingKey[0] = first;
    missingKey[1] = second;
    missingKey[2] = third;
    return place;
  }

  for (const [word, id] of fitting) {
    const place = placeOf(word, 0, word.length);
    table.set(missingKey, place);
    table[place + KEY_NUMBERS] = id;
  }
  // Only now: entries with capitals exist, but a text that is read without case never reaches them.
  if (ignoreCase) for (let code = 65; code <= 90; code++) letters[code] = code + 32;

  return {
    find(text, from, to) {
      const place = placeOf(text, from, to);
      return place === NOWHERE || isFree(place) ? -1 : (table[place + KEY_NUMBERS] as number);
    },
  };
}
