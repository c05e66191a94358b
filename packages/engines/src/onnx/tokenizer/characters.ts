/** What a BERT tokenizer does with a code point, as bits. */
export const DROPPED = 1;
export const SPACE = 2;
export const PUNCTUATION = 4;
export const IDEOGRAPH = 8;
export const ACCENT = 16;
const KNOWN = 128;

const ASCII_PUNCTUATION = /[!-/:-@[-`{-~]/;
const UNICODE_PUNCTUATION = /\p{P}/u;
const OTHER = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}]/u;
const WHITESPACE = /\p{White_Space}/u;
const NONSPACING = /\p{Mn}/u;

/** The blocks that the reference calls Chinese. U+2B820–2B91F is missing there too. */
const IDEOGRAPH_BLOCKS = [
  [0x4e00, 0x9fff],
  [0x3400, 0x4dbf],
  [0x20000, 0x2a6df],
  [0x2a700, 0x2b73f],
  [0x2b740, 0x2b81f],
  [0x2b920, 0x2ceaf],
  [0xf900, 0xfaff],
  [0x2f800, 0x2fa1f],
] as const;

/** One byte for each code point, filled on first use; untouched pages cost no memory. */
const classes = new Uint8Array(0x110000);

export function classOf(codePoint: number): number {
  return (classes[codePoint] as number) || classify(codePoint);
}

function classify(codePoint: number): number {
  const character = String.fromCodePoint(codePoint);
  let bits = KNOWN;
  const lineBreakOrTab = codePoint === 9 || codePoint === 10 || codePoint === 13;
  if (codePoint === 0 || codePoint === 0xfffd || (!lineBreakOrTab && OTHER.test(character))) bits |= DROPPED;
  if (WHITESPACE.test(character)) bits |= SPACE;
  if (ASCII_PUNCTUATION.test(character) || UNICODE_PUNCTUATION.test(character)) bits |= PUNCTUATION;
  if (NONSPACING.test(character)) bits |= ACCENT;
  if (IDEOGRAPH_BLOCKS.some(([from, to]) => codePoint >= from && codePoint <= to)) bits |= IDEOGRAPH;
  classes[codePoint] = bits;
  return bits;
}
