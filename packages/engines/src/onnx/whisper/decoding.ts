import type { Tensor } from 'onnxruntime-node';
import type { DecoderState, Network } from './network.ts';
import { type createRules, logSumExp, pick } from './rules.ts';
import type { Vocabulary } from './vocabulary.ts';

export interface DecodeJob {
  hidden: Tensor;
  /** Tokens of the text that came before; empty: none. */
  previous: readonly number[];
  /** Undefined: detect. */
  language: string | undefined;
  task: 'transcribe' | 'translate';
  temperature: number;
  signal: AbortSignal;
}

export interface Decoded {
  language: string;
  /** Text and timestamp tokens, without the end of text. */
  tokens: readonly number[];
  averageLogprob: number;
  noSpeechProbability: number;
  /** Stopped because the same words came again and again. */
  repetitive: boolean;
}

/** Jobs with one key can be decoded side by side. */
export const batchKey = (job: DecodeJob) => `${job.previous.length}:${job.language === undefined}`;

interface Row {
  index: number;
  job: DecodeJob;
  random: () => number;
  language: string;
  tokens: number[];
  sumLogprob: number;
  noSpeechProbability: number;
}

interface DecoderDependencies {
  network: Network;
  vocabulary: Vocabulary;
  rules: ReturnType<typeof createRules>;
  /** Positions of the decoder: the prefix and half of them for new tokens, as in the reference. */
  contextSize: number;
}

/**
 * Decodes jobs of one key in lockstep. `settle` is called for each as soon as it is through, so a short window does not wait
 * for a long one; one that is aborted leaves the batch at the next token.
 */
export function createDecoder({ network, vocabulary, rules, contextSize }: DecoderDependencies) {
  const { size, endOfText, startOfTranscript, startOfPrevious, tasks, languages } = vocabulary;

  const prefixOf = (job: DecodeJob) => [
    ...(job.previous.length > 0 ? [startOfPrevious, ...job.previous] : []),
    startOfTranscript,
    ...(job.language === undefined ? [] : [languageToken(job.language), tasks[job.task]]),
  ];
  const languageToken = (language: string) => {
    const token = languages.get(language);
    if (token === undefined) throw new Error(`No such language: ${language}`);
    return token;
  };
  const logitsAt = (state: DecoderState, row: number, position: number) => {
    const start = (row * state.positions + position) * size;
    return state.logits.subarray(start, start + size);
  };

  return async function decode(
    jobs: readonly DecodeJob[],
    settle: (index: number, decoded: Decoded) => void,
  ): Promise<void> {
    let rows = jobs.map((job, index): Row => {
      // The same window gives the same text on every run, at any temperature.
      const random = seededRandom(Math.round(job.temperature * 1000) + 1);
      return { index, job, random, language: job.language ?? '', tokens: [], sumLogprob: 0, noSpeechProbability: 0 };
    });
    const prefixes = jobs.map(prefixOf);
    // The task and, where it has to be detected, the language follow the prefix.
    const maxTokens = Math.min(contextSize / 2, contextSize - (prefixes[0]?.length ?? 0) - 2);
    let state = await network.start(
      jobs.map((job) => job.hidden),
      prefixes,
    );
    const startPosition = jobs[0] && jobs[0].previous.length > 0 ? jobs[0].previous.length + 1 : 0;
    rows.forEach((row, i) => {
      const logits = logitsAt(state, i, startPosition);
      row.noSpeechProbability = Math.exp((logits[vocabulary.noSpeech] as number) - logSumExp(logits));
      if (row.language === '') row.language = likeliest(logits, languages);
    });
    if (jobs[0]?.language === undefined) {
      state = await network.step(
        state,
        rows.map((row) => languageToken(row.language)),
      );
      state = await network.step(
        state,
        rows.map((row) => tasks[row.job.task]),
      );
    }

    while (rows.length > 0) {
      const going: number[] = [];
      rows.forEach((row, i) => {
        if (row.job.signal.aborted) return;
        const logits = logitsAt(state, i, state.positions - 1);
        rules(logits, row.tokens);
        const token = pick(logits, row.job.temperature, row.random);
        row.sumLogprob += (logits[token] as number) - logSumExp(logits);
        if (token !== endOfText) row.tokens.push(token);
        const repeated = token === endOfText ? undefined : repetition(row.tokens, endOfText);
        if (token !== endOfText && repeated === undefined && row.tokens.length < maxTokens) {
          going.push(i);
          return;
        }
        settle(row.index, {
          language: row.language,
          tokens: repeated === undefined ? row.tokens : row.tokens.slice(0, repeated),
          averageLogprob: row.sumLogprob / (row.tokens.length + 1),
          noSpeechProbability: row.noSpeechProbability,
          repetitive: repeated !== undefined,
        });
      });
      if (going.length === 0) return;
      if (going.length < rows.length) {
        state = network.select(state, going);
        rows = going.map((i) => rows[i] as Row);
      }
      state = await network.step(
        state,
        rows.map((row) => row.tokens.at(-1) ?? endOfText),
      );
    }
  };
}

function likeliest(logits: Float32Array, languages: ReadonlyMap<string, number>): string {
  let best = '';
  let bestLogit = Number.NEGATIVE_INFINITY;
  for (const [language, token] of languages) {
    const logit = logits[token] as number;
    if (logit > bestLogit) {
      best = language;
      bestLogit = logit;
    }
  }
  return best;
}

/** Mulberry32. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Longest phrase, in tokens, that is looked for. */
const MAX_PERIOD = 32;
/** A phrase counts as stuck after four times and this many tokens in all: "no, no, no" is still speech. */
const MIN_TIMES = 4;
const MIN_SPAN = 32;

/**
 * Whether the text ends in one phrase said over and over, the way Whisper gets stuck on noise. Timestamps between the
 * repetitions do not hide it. Gives the index in `tokens` at which the first repetition begins, to cut there.
 */
export function repetition(tokens: readonly number[], endOfText: number): number | undefined {
  if (tokens.length < MIN_SPAN || (tokens.at(-1) ?? 0) >= endOfText) return undefined;
  const places = tokens.flatMap((token, place) => (token < endOfText ? [place] : []));
  const at = (index: number) => tokens[places[index] as number];
  const count = places.length;
  for (let period = 1; period <= MAX_PERIOD; period++) {
    const span = Math.max(MIN_SPAN, MIN_TIMES * period);
    if (span > count) continue;
    let same = 0;
    while (same < count - period && at(count - 1 - same) === at(count - 1 - same - period)) same++;
    if (same + period >= span) return places[count - same];
  }
  return undefined;
}
