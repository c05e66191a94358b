const FRAME_SAMPLES = 480;

/** -65 dBFS: under any speech that was recorded on purpose, above the dither of a 16-bit file. */
const SILENCE_RMS = 10 ** (-65 / 20);

/** Whether no 30 ms of it are loud enough to be speech. Whisper would make words up for such a window. */
export function isSilent(samples: Float32Array): boolean {
  for (let start = 0; start < samples.length; start += FRAME_SAMPLES) {
    const end = Math.min(start + FRAME_SAMPLES, samples.length);
    let energy = 0;
    for (let i = start; i < end; i++) energy += (samples[i] as number) ** 2;
    if (energy > SILENCE_RMS ** 2 * (end - start)) return false;
  }
  return true;
}
