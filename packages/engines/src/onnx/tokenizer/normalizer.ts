import { ACCENT, classOf, DROPPED, SPACE } from './characters.ts';
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
