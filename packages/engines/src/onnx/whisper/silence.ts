import { SAMPLE_RATE } from './log-mel.ts';

const FRAME_SAMPLES = 480;

/** -65 dBFS: under any speech that was recorded on purpose, above the dither of a 16-bit file. */
const SILENCE_POWER = 10 ** (-65 / 10);
/** -26 dB under the loudest frame: pauses and breath are below, vowels above. */
const SOUNDING_SHARE = 10 ** (-26 / 10);

/** Whether no 30 ms of it are loud enough to be speech. Whisper would make words up for such a window. */
export function isSilent(samples: Float32Array): boolean {
  return framePowers(samples).every((power) => power <= SILENCE_POWER);
}

/** How much of a part is about as loud as the whole it is taken from. */
export function soundingSeconds(part: Float32Array, whole: Float32Array): number {
  const least = Math.max(SILENCE_POWER, framePowers(whole).reduce((a, b) => Math.max(a, b), 0) * SOUNDING_SHARE);
  return (framePowers(part).filter((power) => power > least).length * FRAME_SAMPLES) / SAMPLE_RATE;
}

function framePowers(samples: Float32Array): number[] {
  return Array.from({ length: Math.ceil(samples.length / FRAME_SAMPLES) }, (_, frame) => {
    const part = samples.subarray(frame * FRAME_SAMPLES, (frame + 1) * FRAME_SAMPLES);
    let sum = 0;
    for (const sample of part) sum += sample * sample;
    return sum / part.length;
  });
}
