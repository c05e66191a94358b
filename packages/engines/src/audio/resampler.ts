/** Zero crossings of the sinc on either side. The Kaiser window passes less than -80 dB beyond them. */
const CROSSINGS = 16;
const KAISER_BETA = 8;
/** Leaves room for the filter's slope below the new Nyquist frequency. */
const PASSBAND = 0.95;

export interface Resampler {
  /** Returns the samples that can be computed so far. */
  push(input: Float32Array): Float32Array;
  /** Returns the remaining samples, as if silence followed. */
  flush(): Float32Array;
}

/** Windowed-sinc resampling of a mono stream by a fixed ratio, with one row of filter taps for each phase. */
export function createResampler(fromRate: number, toRate: number): Resampler {
  if (fromRate === toRate) return { push: (input) => input, flush: () => new Float32Array(0) };
  const divisor = greatestCommonDivisor(fromRate, toRate);
  const step = fromRate / divisor;
  const phases = toRate / divisor;
  const cutoff = Math.min(1, toRate / fromRate) * PASSBAND;
  const reach = Math.ceil(CROSSINGS / cutoff);
  const taps = filterTaps(phases, reach, cutoff);
  const width = 2 * reach;
  // Starts with silence, so that the first output is centred on the first input.
  let held = new Float32Array(reach - 1);
  let phase = 0;

  const push = (input: Float32Array): Float32Array => {
    const samples = new Float32Array(held.length + input.length);
    samples.set(held);
    samples.set(input, held.length);
    const available = samples.length - width;
    const count = available < 0 ? 0 : Math.floor((available * phases + phases - 1 - phase) / step) + 1;
    const output = new Float32Array(Math.max(0, count));
    let position = 0;
    let produced = 0;
    while (position <= available) {
      let sum = 0;
      const row = phase * width;
      for (let k = 0; k < width; k++) sum += (samples[position + k] as number) * (taps[row + k] as number);
      output[produced++] = sum;
      phase += step;
      position += Math.floor(phase / phases);
      phase %= phases;
    }
    held = samples.slice(Math.min(position, samples.length));
    return output.subarray(0, produced);
  };

  return { push, flush: () => push(new Float32Array(reach)) };
}

function filterTaps(phases: number, reach: number, cutoff: number): Float32Array {
  const width = 2 * reach;
  const taps = new Float32Array(phases * width);
  for (let phase = 0; phase < phases; phase++) {
    let sum = 0;
    for (let k = 0; k < width; k++) {
      const distance = k - (reach - 1) - phase / phases;
      const x = Math.PI * distance * cutoff;
      const tap = (x === 0 ? 1 : Math.sin(x) / x) * kaiser(distance / reach);
      taps[phase * width + k] = tap;
      sum += tap;
    }
    for (let k = 0; k < width; k++) taps[phase * width + k] = (taps[phase * width + k] as number) / sum;
  }
  return taps;
}

const kaiser = (x: number) => (Math.abs(x) >= 1 ? 0 : bessel(KAISER_BETA * Math.sqrt(1 - x * x)) / bessel(KAISER_BETA));

/** Modified Bessel function of the first kind, order zero. */
function bessel(x: number): number {
  let sum = 1;
  let term = 1;
  for (let k = 1; term > sum * 1e-12; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}
