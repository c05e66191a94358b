import type { NormalizerPart } from './file.ts';

const FORMS: readonly string[] = ['NFC', 'NFD', 'NFKC', 'NFKD'];

export interface BertNormalizer {
  /** Unicode forms applied before everything else. */
  forms: readonly string[];
  cleanText: boolean;
  splitIdeographs: boolean;
  stripAccents: boolean;
  lowercase: boolean;
}

/** The settings of a BertNormalizer, alone or after Unicode forms; undefined for any other normalizer. */
export function readBertNormalizer(part: NormalizerPart | null | undefined): BertNormalizer | undefined {
  const parts = part?.type === 'Sequence' ? (part.normalizers ?? []) : part ? [part] : [];
  const bert = parts.at(-1);
  const before = parts.slice(0, -1);
  if (bert?.type !== 'BertNormalizer' || !before.every(({ type }) => FORMS.includes(type))) return undefined;
  const lowercase = bert.lowercase ?? true;
  return {
    forms: before.map(({ type }) => type),
    cleanText: bert.clean_text ?? true,
    splitIdeographs: bert.handle_chinese_chars ?? true,
    stripAccents: bert.strip_accents ?? lowercase,
    lowercase,
  };
}

/**
 * In the order of the reference: forms, clean, strip, lower. It also puts spaces around ideographs,
 * which is not needed here, since each ideograph becomes a word anyway.
 */
export function normalize(text: string, settings: BertNormalizer): string {
  let result = text;
  for (const form of settings.forms) result = result.normalize(form);
  if (settings.cleanText && some(result, DROPPED | SPACE)) result = cleaned(result);
  if (settings.stripAccents) {
    result = result.normalize('NFD');
    if (some(result, ACCENT)) result = without(result, ACCENT);
  }
  // Letter by letter a capital sigma becomes σ; toLowerCase makes it ς at the end of a word.
  if (settings.lowercase) result = result.replaceAll('Σ', 'σ').toLowerCase();
  return result;
}

function cleaned(text: string): string {
  let result = '';
  for (const character of without(text, DROPPED)) result += has(character, SPACE) ? ' ' : character;
  return result;
}

function without(text: string, bits: number): string {
  let result = '';
  for (const character of text) if (!has(character, bits)) result += character;
  return result;
}

const has = (character: string, bits: number) => (classOf(character.codePointAt(0) ?? 0) & bits) !== 0;

function some(text: string, bits: number): boolean {
  for (let i = 0; i < text.length; i++) {
    const codePoint = text.codePointAt(i) ?? 0;
    if (classOf(codePoint) & bits) return true;
    if (codePoint > 0xffff) i++;
  }
  return false;
}

/** What a BERT tokenizer does with a code point, as bits. */
export const DROPPED = 1;
export const SPACE = 2;
export const PUNCTUATION = 4;
export const IDEOGRAPH = 8;
const ACCENT = 16;
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
