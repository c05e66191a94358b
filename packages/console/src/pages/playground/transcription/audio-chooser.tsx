import { useEffect, useRef, useState } from 'preact/hooks';
import { useNow } from '../../../address/range.ts';
import { Button } from '../../../components/button.tsx';
import { toast } from '../../../components/feedback.tsx';
import { bytes } from '../../../format/numbers.ts';
import { duration } from '../../../format/times.ts';
import { texts } from '../../../texts/en/texts.ts';

export interface AudioChooserProps {
  file: File | undefined;
  onFile: (file: File | undefined) => void;
}

/** Takes a file, or records one. */
export function AudioChooser({ file, onFile }: AudioChooserProps) {
  const { playground } = texts;
  const chooser = useRef<HTMLInputElement>(null);
  const recorder = useRecorder(onFile);
  const now = useNow(500);
  return (
    <div class="field">
      <span class="field-label">{playground.audio}</span>
      <div class="row row-wrap">
        <input
          ref={chooser}
          class="hidden-visually"
          type="file"
          accept="audio/*,video/webm"
          tabIndex={-1}
          aria-label={playground.chooseAudio}
          onChange={(event) => onFile(event.currentTarget.files?.[0])}
        />
        <Button icon="upload" onClick={() => chooser.current?.click()}>
          {playground.chooseAudio}
        </Button>
        {recorder.since === undefined ? (
          <Button icon="mic" onClick={recorder.start}>
            {playground.record}
          </Button>
        ) : (
          <Button tone="danger" icon="stop" onClick={recorder.stop}>
            {playground.stopRecording(duration(Math.max(0, now - recorder.since)))}
          </Button>
        )}
      </div>
      <span class="field-hint">{file ? `${file.name}, ${bytes(file.size)}` : playground.audioHint}</span>
    </div>
  );
}

interface Recorder {
  /** Since when it records. */
  since: number | undefined;
  start: () => void;
  stop: () => void;
}

/** Records the microphone and hands over the audio as a file. */
function useRecorder(onRecorded: (file: File) => void): Recorder {
  const [since, setSince] = useState<number>();
  const recorder = useRef<MediaRecorder>(undefined);
  const stop = () => recorder.current?.stop();
  useEffect(() => stop, []);
  const start = async () => {
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      const own = new MediaRecorder(stream);
      const parts: Blob[] = [];
      own.ondataavailable = ({ data }) => parts.push(data);
      own.onstop = () => {
        for (const track of stream.getTracks()) track.stop();
        setSince(undefined);
        const ending = own.mimeType.includes('mp4') ? 'm4a' : own.mimeType.includes('ogg') ? 'ogg' : 'webm';
        onRecorded(new File(parts, `recording.${ending}`, { type: own.mimeType }));
      };
      recorder.current = own;
      own.start();
      setSince(Date.now());
    } catch {
      toast(texts.playground.noMicrophone, { bad: true });
    }
  };
  return { since, start: () => void start(), stop };
}
