import type { AudioWindow } from '@baobab/core/ports/file-readers.ts';
import { SAMPLE_RATE } from './protocol.ts';

/** The model takes windows of 30 s. Each is cut somewhere in its last part. */
const WINDOW_SAMPLES = 30 * SAMPLE_RATE;
const SEARCH_FROM_SAMPLES = 18 * SAMPLE_RATE;
const FRAME_SAMPLES = SAMPLE_RATE / 50;
/** A cut is in the middle of the quietest 0.3 s, a breath between sentences. */
const PAUSE_FRAMES = 15;
/** -55 dBFS. Speech below it is unintelligible, so it is not transcribed. */
const SILENCE_ENERGY = 10 ** (-55 / 10);
/** Kept before the first sound of a window, so that a soft start is not lost. */
const LEAD_IN_FRAMES = 10;

/**
 * Cuts a stream of samples into windows of at most 30 s, each at the quietest point of its last 12 s. Silence before the first
 * sound of a window is skipped, so long pauses cost nothing. Keeps one window and one chunk in memory.
 * Returns the length of the whole audio.
 */
export async function* cutWindows(
  chunks: AsyncIterable<Float32Array>,
): AsyncGenerator<AudioWindow, { durationSeconds: number }> {
  const held = new Float32Array(WINDOW_SAMPLES);
  let length = 0;
  let startSample = 0;

  const drop = (count: number) => {
    held.copyWithin(0, count, length);
    length -= count;
    startSample += count;
  };
  const dropLeadingSilence = () => drop(leadingSilence(held.subarray(0, length)));
  const take = (count: number): AudioWindow => {
    const window = { startSeconds: startSample / SAMPLE_RATE, samples: held.slice(0, count) };
    drop(count);
    return window;
  };

  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      const piece = chunk.subarray(at, at + WINDOW_SAMPLES - length);
      held.set(piece, length);
      length += piece.length;
      at += piece.length;
      if (length < WINDOW_SAMPLES) continue;
      dropLeadingSilence();
      if (length === WINDOW_SAMPLES) yield take(quietestCut(held));
    }
  }
  const durationSeconds = (startSample + length) / SAMPLE_RATE;
  dropLeadingSilence();
  if (hasSound(held.subarray(0, length))) yield take(length);
  return { durationSeconds };
}

/** Whole frames of silence at the start that can be dropped. */
function leadingSilence(samples: Float32Array): number {
  const frames = Math.floor(samples.length / FRAME_SAMPLES);
  let quiet = 0;
  while (quiet < frames && frameEnergy(samples, quiet) <= SILENCE_ENERGY) quiet++;
  return Math.max(0, quiet - LEAD_IN_FRAMES) * FRAME_SAMPLES;
}

function hasSound(samples: Float32Array): boolean {
  const frames = Math.ceil(samples.length / FRAME_SAMPLES);
  for (let frame = 0; frame < frames; frame++) if (frameEnergy(samples, frame) > SILENCE_ENERGY) return true;
  return false;
}

/** The middle of the quietest pause. The last among equals, so that windows are long. */
function quietestCut(samples: Float32Array): number {
  const first = SEARCH_FROM_SAMPLES / FRAME_SAMPLES;
  const frames = WINDOW_SAMPLES / FRAME_SAMPLES;
  const energies = Array.from({ length: frames - first }, (_, i) => frameEnergy(samples, first + i));
  let sum = energies.slice(0, PAUSE_FRAMES).reduce((total, energy) => total + energy, 0);
  let quietest = sum;
  let cut = 0;
  for (let i = PAUSE_FRAMES; i < energies.length; i++) {
    sum += (energies[i] as number) - (energies[i - PAUSE_FRAMES] as number);
    if (sum > quietest + 1e-9) continue;
    quietest = sum;
    cut = i - PAUSE_FRAMES + 1;
  }
  return (first + cut + Math.ceil(PAUSE_FRAMES / 2)) * FRAME_SAMPLES;
}

/** Mean square of 20 ms. */
function frameEnergy(samples: Float32Array, frame: number): number {
  const start = frame * FRAME_SAMPLES;
  const end = Math.min(start + FRAME_SAMPLES, samples.length);
  let sum = 0;
  for (let i = start; i < end; i++) sum += (samples[i] as number) ** 2;
  return end > start ? sum / (end - start) : 0;
}
