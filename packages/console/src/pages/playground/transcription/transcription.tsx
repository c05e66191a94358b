import type { RefObject } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { call } from '../../../api/client.ts';
import { useWorkAccount } from '../../../api/session.ts';
import { TextField } from '../../../components/fields.tsx';
import { Card } from '../../../components/page.tsx';
import { audioLength } from '../../../format/times.ts';
import { texts } from '../../../texts/en/texts.ts';
import { costOf } from '../chat/cost.ts';
import { useDraft } from '../drafts.ts';
import { PartForm, type PartProps, Stats } from '../parts.tsx';
import { useRun } from '../run.ts';
import { AudioChooser } from './audio-chooser.tsx';
import { transcriptionSnippet } from './snippet.ts';
import { peaksOf, Waveform } from './waveform.tsx';

interface TranscriptionAnswer {
  text: string;
  language?: string;
  duration?: number;
  words?: Word[];
  usage?: { seconds: number };
}

export function Transcription({ models, model, onCode }: PartProps) {
  const { playground } = texts;
  const [draft, change] = useDraft('audio', { language: '', prompt: '' });
  const [file, setFile] = useState<File>();
  const [peaks, setPeaks] = useState<number[]>();
  const { query } = useWorkAccount();
  const run = useRun<TranscriptionAnswer>();
  const { audio, time, setTime, length, seek } = usePlayer();
  const source = useMemo(() => (file ? URL.createObjectURL(file) : undefined), [file]);
  useEffect(() => () => void (source && URL.revokeObjectURL(source)), [source]);

  const take = (next: File | undefined) => {
    if (!next) return;
    setFile(next);
    setTime(0);
    setPeaks(undefined);
    // Not every format that the server reads can be decoded here: then there is no waveform.
    peaksOf(next).then(setPeaks, () => setPeaks(undefined));
  };
  const start = () => {
    if (!file) return;
    const form = new FormData();
    form.set('model', model.id);
    if (draft.language.trim() !== '') form.set('language', draft.language.trim());
    if (draft.prompt.trim() !== '') form.set('prompt', draft.prompt.trim());
    form.set('response_format', 'verbose_json');
    form.append('timestamp_granularities[]', 'word');
    form.set('file', file);
    run.start((signal) =>
      call<TranscriptionAnswer>('/v1/audio/transcriptions', { method: 'POST', query, form, signal }),
    );
  };
  const answer = run.result?.value;
  const seconds = answer?.usage?.seconds ?? Math.ceil(answer?.duration ?? 0);
  return (
    <div class="play-two">
      <PartForm
        models={models}
        model={model}
        run={run}
        label={playground.transcribe}
        disabled={!file}
        onRun={start}
        onCode={() =>
          onCode((language) =>
            transcriptionSnippet(language, {
              origin: location.origin,
              query,
              model: model.id,
              file: file?.name ?? 'speech.wav',
              language: draft.language.trim(),
              prompt: draft.prompt.trim(),
            }),
          )
        }
      >
        <AudioChooser file={file} onFile={take} />
        {peaks && (
          <Waveform
            peaks={peaks}
            share={length ? time / length : 0}
            onSeek={(share) => seek(share * (audio.current?.duration ?? 0))}
          />
        )}
        {source && (
          // The transcript is its caption.
          <audio
            ref={audio}
            class="player"
            controls
            src={source}
            onTimeUpdate={(event) => setTime(event.currentTarget.currentTime)}
          >
            <track kind="captions" />
          </audio>
        )}
        <div class="fields-2">
          <TextField
            label={playground.language}
            hint={playground.languageHint}
            maxLength={3}
            value={draft.language}
            onValue={(language) => change({ language })}
          />
          <TextField
            label={playground.prompt}
            hint={playground.promptHint}
            value={draft.prompt}
            onValue={(prompt) => change({ prompt })}
          />
        </div>
      </PartForm>
      {answer && run.result && (
        <Card title={playground.transcript}>
          <div class="stack">
            {answer.words && answer.words.length > 0 ? (
              <Words words={answer.words} time={time} onSeek={(at) => seek(at, true)} />
            ) : (
              <p dir="auto">{answer.text}</p>
            )}
            <Stats cost={costOf(model, { seconds })} ms={run.result.ms}>
              <span>{playground.billed(audioLength(seconds))}</span>
              {answer.language && <span>{playground.detected(answer.language)}</span>}
            </Stats>
            <p class="small muted">{playground.transcriptHint}</p>
          </div>
        </Card>
      )}
    </div>
  );
}

interface Player {
  audio: RefObject<HTMLAudioElement | null>;
  /** In seconds, like the others. */
  time: number;
  setTime: (seconds: number) => void;
  length: number | undefined;
  seek: (seconds: number, play?: boolean) => void;
}

/** Follows an audio element. */
function usePlayer(): Player {
  const audio = useRef<HTMLAudioElement>(null);
  const [time, setTime] = useState(0);
  // Between two events of the player the time goes on: words light up without a delay.
  useEffect(() => {
    let frame = 0;
    const follow = () => {
      if (audio.current && !audio.current.paused) setTime(audio.current.currentTime);
      frame = requestAnimationFrame(follow);
    };
    frame = requestAnimationFrame(follow);
    return () => cancelAnimationFrame(frame);
  }, []);
  const seek = (seconds: number, play = false) => {
    if (!audio.current) return;
    audio.current.currentTime = seconds;
    setTime(seconds);
    if (play) void audio.current.play();
  };
  return { audio, time, setTime, length: audio.current?.duration, seek };
}

interface Word {
  word: string;
  start: number;
  end: number;
}

interface WordsProps {
  words: Word[];
  /** Seconds played so far. */
  time: number;
  onSeek: (seconds: number) => void;
}

/** The transcript; the word that is spoken now lights up, and a click on one plays it. */
function Words({ words, time, onSeek }: WordsProps) {
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
