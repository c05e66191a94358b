import type { Vocabulary } from './vocabulary.ts';

const SECONDS_PER_TIMESTAMP = 0.02;

export interface TokenSegment {
  startSeconds: number;
  endSeconds: number;
  tokens: readonly number[];
}

export interface SplitTokens {
  /** Segments with a start and an end. */
  closed: readonly TokenSegment[];
  /** Text after the last timestamp, where the model left off; it is taken to reach to the end of the window. */
  open?: TokenSegment | undefined;
}

/** Cuts a window's tokens at the timestamps. */
export function splitTokens(tokens: readonly number[], durationSeconds: number, vocabulary: Vocabulary): SplitTokens {
  const { timestampBegin } = vocabulary;
  const closed: TokenSegment[] = [];
  let startSeconds = 0;
  let text: number[] = [];
  for (const token of tokens) {
    if (token < timestampBegin) {
      text.push(token);
      continue;
    }
    const seconds = Math.min((token - timestampBegin) * SECONDS_PER_TIMESTAMP, durationSeconds);
    // A segment that begins after the audio has ended was made up.
    if (text.length > 0 && seconds > startSeconds) closed.push({ startSeconds, endSeconds: seconds, tokens: text });
    text = [];
    startSeconds = seconds;
  }
  return {
    closed,
    open:
      text.length > 0 && startSeconds < durationSeconds
        ? { startSeconds, endSeconds: durationSeconds, tokens: text }
        : undefined,
  };
}
