import type { TranscribedWord } from '@baobab/core/engine/engine.ts';
import type { Vocabulary } from './vocabulary.ts';

/** Languages written without spaces: every complete character is a word. */
const WITHOUT_SPACES = new Set(['zh', 'ja', 'th', 'lo', 'my', 'yue']);
const OPENING = /^["'“¿([{-]+$/u;
const CLOSING = /^["'.。,，!！?？:：”)\]}、]+$/u;
const SENTENCE_END = /[.。!！?？]["'”)\]]*$/u;

/**
 * Words of one segment. `boundaries` are the times of its tokens, one more than there are tokens. A word beside a pause is
 * often stretched over it by the alignment, so a word at the edge of a sentence gets at most twice the median length.
 */
export function wordsOf(
  tokens: readonly number[],
  boundaries: readonly number[],
  { language, vocabulary }: { language: string; vocabulary: Vocabulary },
): TranscribedWord[] {
  const words: TranscribedWord[] = [];
  let first = 0;
  for (const group of groupTokens(tokens, language, vocabulary)) {
    const startSeconds = boundaries[first] ?? 0;
    first += group.length;
    const endSeconds = Math.max(boundaries[first] ?? startSeconds, startSeconds);
    const word = vocabulary.decode(group).trim();
    if (word !== '') words.push({ word, startSeconds, endSeconds });
  }
  return limitLengths(words);
}

function groupTokens(tokens: readonly number[], language: string, vocabulary: Vocabulary): number[][] {
  const characters = wholeCharacters(tokens, vocabulary);
  const groups: number[][] = [];
  let pendingOpening = false;
  for (const piece of characters) {
    const text = vocabulary.decode(piece);
    const previous = groups.at(-1);
    const begins = WITHOUT_SPACES.has(language) || text.startsWith(' ');
    const joins = previous !== undefined && (CLOSING.test(text) || (pendingOpening && !CLOSING.test(text)) || !begins);
    if (joins) previous.push(...piece);
    else groups.push([...piece]);
    pendingOpening = text.startsWith(' ') ? OPENING.test(text.trim()) : pendingOpening && OPENING.test(text);
  }
  return groups;
}

/** Runs of tokens that end at a whole character; a character of several bytes may span tokens. */
function wholeCharacters(tokens: readonly number[], vocabulary: Vocabulary): number[][] {
  const strict = new TextDecoder('utf-8', { fatal: true });
  const runs: number[][] = [];
  let run: number[] = [];
  for (const token of tokens) {
    run.push(token);
    try {
      strict.decode(vocabulary.bytes(run));
    } catch {
      continue;
    }
    runs.push(run);
    run = [];
  }
  if (run.length > 0) runs.push(run);
  return runs;
}

function limitLengths(words: readonly TranscribedWord[]): TranscribedWord[] {
  const lengths = words.map((word) => word.endSeconds - word.startSeconds).filter((length) => length > 0);
  const median = lengths.toSorted((a, b) => a - b)[Math.floor(lengths.length / 2)] ?? 0;
  const longest = 2 * Math.min(0.7, median);
  return words.map((word, i) => {
    if (longest === 0 || word.endSeconds - word.startSeconds <= longest) return word;
    const previous = words[i - 1];
    if (previous === undefined || SENTENCE_END.test(previous.word)) {
      return { ...word, startSeconds: word.endSeconds - longest };
    }
    return SENTENCE_END.test(word.word) ? { ...word, endSeconds: word.startSeconds + longest } : word;
  });
}
