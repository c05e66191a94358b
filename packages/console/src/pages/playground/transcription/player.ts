import type { RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

export interface Player {
  audio: RefObject<HTMLAudioElement | null>;
  /** In seconds, like the others. */
  time: number;
  setTime: (seconds: number) => void;
  length: number | undefined;
  seek: (seconds: number, play?: boolean) => void;
}

/** Follows an audio element. */
export function usePlayer(): Player {
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
