import { useEffect, useRef, useState } from 'preact/hooks';
import { toast } from '../../../components/feedback.tsx';
import { texts } from '../../../texts/en/texts.ts';

export interface Recorder {
  /** Since when it records. */
  since: number | undefined;
  start: () => void;
  stop: () => void;
}

/** Records the microphone and hands over the audio as a file. */
export function useRecorder(onRecorded: (file: File) => void): Recorder {
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
