export interface Word {
  word: string;
  start: number;
  end: number;
}

export interface WordsProps {
  words: Word[];
  /** Seconds played so far. */
  time: number;
  onSeek: (seconds: number) => void;
}

/** The transcript; the word that is spoken now lights up, and a click on one plays it. */
export function Words({ words, time, onSeek }: WordsProps) {
  return (
    <p class="words" dir="auto">
      {words.map(({ word, start, end }, index) => {
        const state =
          time >= start && time < Math.max(end, start + 0.05)
            ? 'word word-now'
            : time >= end
              ? 'word word-past'
              : 'word';
        return (
          <span key={index}>
            <button type="button" class={state} onClick={() => onSeek(start)}>
              {word.trim()}
            </button>{' '}
          </span>
        );
      })}
    </p>
  );
}
