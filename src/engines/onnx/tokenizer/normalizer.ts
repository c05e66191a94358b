import { ACCENT, classOf, DROPPED, IDEOGRAPH, SPACE } from './characters.ts';
import type { NormalizerPart } from './file.ts';

const FORMS: readonly string[] = ['NFC', 'NFD', 'NFKC', 'NFKD'];

export interface BertNormalizer {
  /** Unicode forms applied before everything else. */
  forms: readonly string[];
  cleanText: boolean;
  spaceIdeographs: boolean;
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
    spaceIdeographs: bert.handle_chinese_chars ?? true,
    stripAccents: bert.strip_accents ?? lowercase,
    lowercase,
  };
}

/** The general path, one code point after the other, in the order of the reference: clean, space out, strip, lower. */
export function normalize(text: string, settings: BertNormalizer): string {
  let result = text;
  for (const form of settings.forms) result = result.normalize(form);
  result = cleaned(result, settings);
  if (settings.stripAccents) result = stripped(result.normalize('NFD'));
  // Letter by letter a capital sigma becomes σ; toLowerCase makes it ς at the end of a word.
  if (settings.lowercase) result = result.replaceAll('Σ', 'σ').toLowerCase();
  return result;
}

function cleaned(text: string, { cleanText, spaceIdeographs }: BertNormalizer): string {
  let result = '';
  for (const character of text) {
    const bits = classOf(character.codePointAt(0) ?? 0);
    if (cleanText && bits & DROPPED) continue;
    if (cleanText && bits & SPACE) result += ' ';
    else result += spaceIdeographs && bits & IDEOGRAPH ? ` ${character} ` : character;
  }
  return result;
}

function stripped(text: string): string {
  let result = '';
  for (const character of text) if (!(classOf(character.codePointAt(0) ?? 0) & ACCENT)) result += character;
  return result;
}
