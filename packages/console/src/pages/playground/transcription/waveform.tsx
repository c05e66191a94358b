import { useEffect, useRef } from 'preact/hooks';
import { resolveColor } from '../../../charts/colors.ts';
import { useTheme } from '../../../components/theme.ts';
import { texts } from '../../../texts/en/texts.ts';

const BARS = 240;
const GAP = 1;

/** The loudest sample of each slice, 0 to 1. */
export async function peaksOf(audio: Blob): Promise<number[]> {
  const context = new AudioContext();
  try {
    const decoded = await context.decodeAudioData(await audio.arrayBuffer());
    const samples = decoded.getChannelData(0);
    const slice = Math.max(1, Math.floor(samples.length / BARS));
    const peaks = Array.from({ length: BARS }, (_, bar) => {
      let most = 0;
      for (let at = bar * slice; at < (bar + 1) * slice; at += 1) most = Math.max(most, Math.abs(samples[at] ?? 0));
      return most;
    });
    const top = Math.max(...peaks, 0.01);
    return peaks.map((peak) => peak / top);
  } finally {
    await context.close();
  }
}

export interface WaveformProps {
  peaks: number[];
  /** Played so far, 0 to 1. */
  share: number;
  onSeek: (share: number) => void;
}

export function Waveform({ peaks, share, onSeek }: WaveformProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { dark } = useTheme();
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d');
    if (!element || !context) return;
    const ratio = devicePixelRatio;
    const { clientWidth: width, clientHeight: height } = element;
    element.width = width * ratio;
    element.height = height * ratio;
    context.scale(ratio, ratio);
    const [played, ahead] = [resolveColor('--accent'), resolveColor('--line-strong')];
    const step = width / peaks.length;
    peaks.forEach((peak, index) => {
      const tall = Math.max(2, peak * height);
      context.fillStyle = index / peaks.length < share ? played : ahead;
      context.fillRect(index * step, (height - tall) / 2, Math.max(1, step - GAP), tall);
    });
  }, [peaks, share, dark]);
  return (
    <canvas
      ref={canvas}
      class="waveform"
      title={texts.playground.waveform}
      onClick={(event) => onSeek(event.offsetX / event.currentTarget.clientWidth)}
    />
  );
}
