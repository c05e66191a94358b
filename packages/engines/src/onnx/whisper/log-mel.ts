/**
 * The features Whisper was trained on: log-mel energies of 25 ms frames every 10 ms, computed as the reference feature
 * extractor does (periodic Hann window, reflected edges, Slaney mel scale, floor at eight decades under the maximum).
 */

export const SAMPLE_RATE = 16_000;
const FRAME = 400;
const HALF = FRAME / 2;
const BINS = HALF + 1;
const HOP = 160;
const FLOOR = 1e-10;

/** Row-major [melBins, frames] of a window that is padded with silence to its full length. */
export type LogMel = (samples: Float32Array) => Float32Array;

export function createLogMel(melBins: number, windowSamples: number): LogMel {
  const frames = windowSamples / HOP;
  const filters = melFilters(melBins);
  const window = Float64Array.from({ length: FRAME }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / FRAME));
  const spectrum = createPowerSpectrum();
  const frame = new Float64Array(FRAME);

  return (samples) => {
    const length = Math.min(samples.length, windowSamples);
    const features = new Float32Array(melBins * frames).fill(Math.log10(FLOOR));
    // Frames that reach only into the padding are silent; a frame spans 200 samples to either side of its centre.
    const voiced = Math.min(frames, Math.ceil((length + HALF) / HOP));
    let maximum = Math.log10(FLOOR);
    for (let t = 0; t < voiced; t++) {
      const start = t * HOP - HALF;
      for (let i = 0; i < FRAME; i++) {
        frame[i] = (samples[reflect(start + i, windowSamples)] ?? 0) * (window[i] as number);
      }
      const power = spectrum(frame);
      for (let m = 0; m < melBins; m++) {
        const { first, weights } = filters[m] as MelFilter;
        let energy = 0;
        for (let k = 0; k < weights.length; k++) energy += (weights[k] as number) * (power[first + k] as number);
        const value = Math.log10(Math.max(FLOOR, energy));
        features[m * frames + t] = value;
        if (value > maximum) maximum = value;
      }
    }
    const floor = maximum - 8;
    for (let i = 0; i < features.length; i++) features[i] = (Math.max(features[i] as number, floor) + 4) / 4;
    return features;
  };
}

function reflect(index: number, length: number): number {
  if (index < 0) return -index;
  return index >= length ? 2 * (length - 1) - index : index;
}

interface MelFilter {
  first: number;
  weights: Float64Array;
}

const hertzToMel = (hertz: number) =>
  hertz < 1000 ? (3 * hertz) / 200 : 15 + Math.log(hertz / 1000) * (27 / Math.log(6.4));
const melToHertz = (mel: number) => (mel < 15 ? (200 * mel) / 3 : 1000 * Math.exp((mel - 15) * (Math.log(6.4) / 27)));

/** Triangles on the Slaney scale, each of area one, kept without their zeros. */
function melFilters(count: number): MelFilter[] {
  const top = hertzToMel(SAMPLE_RATE / 2);
  const edge = (i: number) => melToHertz((top * i) / (count + 1));
  return Array.from({ length: count }, (_, m) => {
    const [low, centre, high] = [edge(m), edge(m + 1), edge(m + 2)];
    const dense = Float64Array.from({ length: BINS }, (_, k) => {
      const hertz = (k * SAMPLE_RATE) / FRAME;
      return (
        (Math.max(0, Math.min((hertz - low) / (centre - low), (high - hertz) / (high - centre))) * 2) / (high - low)
      );
    });
    const first = Math.max(
      0,
      dense.findIndex((weight) => weight > 0),
    );
    const last = dense.findLastIndex((weight) => weight > 0);
    return { first, weights: dense.slice(first, last + 1) };
  });
}

/**
 * |DFT|² of 400 real samples. Even and odd samples become the two parts of a complex transform of length 200, which is done
 * by decimation with the factors 4, 2, 5, 5; a direct DFT would cost ten times as much.
 */
function createPowerSpectrum(): (frame: Float64Array) => Float64Array {
  const cosine = Float64Array.from({ length: FRAME }, (_, i) => Math.cos((2 * Math.PI * i) / FRAME));
  const sine = Float64Array.from({ length: FRAME }, (_, i) => Math.sin((2 * Math.PI * i) / FRAME));
  const radices = [4, 2, 5, 5];
  const order = decimationOrder(radices);
  const real = new Float64Array(HALF);
  const imaginary = new Float64Array(HALF);
  const pieceReal = new Float64Array(5);
  const pieceImaginary = new Float64Array(5);
  const power = new Float64Array(BINS);

  return (frame) => {
    for (let i = 0; i < HALF; i++) {
      const from = order[i] as number;
      real[i] = frame[2 * from] as number;
      imaginary[i] = frame[2 * from + 1] as number;
    }
    let size = 1;
    for (const radix of radices) {
      const step = FRAME / (size * radix);
      for (let base = 0; base < HALF; base += size * radix) {
        for (let j = 0; j < size; j++) {
          for (let q = 0; q < radix; q++) {
            const at = base + j + q * size;
            const angle = (q * j * step) % FRAME;
            const c = cosine[angle] as number;
            const s = sine[angle] as number;
            pieceReal[q] = (real[at] as number) * c + (imaginary[at] as number) * s;
            pieceImaginary[q] = (imaginary[at] as number) * c - (real[at] as number) * s;
          }
          for (let r = 0; r < radix; r++) {
            let x = 0;
            let y = 0;
            for (let q = 0; q < radix; q++) {
              const angle = (q * r * (FRAME / radix)) % FRAME;
              const c = cosine[angle] as number;
              const s = sine[angle] as number;
              x += (pieceReal[q] as number) * c + (pieceImaginary[q] as number) * s;
              y += (pieceImaginary[q] as number) * c - (pieceReal[q] as number) * s;
            }
            real[base + j + r * size] = x;
            imaginary[base + j + r * size] = y;
          }
        }
      }
      size *= radix;
    }
    for (let k = 0; k <= HALF; k++) {
      const a = k % HALF;
      const b = (HALF - k) % HALF;
      const evenReal = ((real[a] as number) + (real[b] as number)) / 2;
      const evenImaginary = ((imaginary[a] as number) - (imaginary[b] as number)) / 2;
      const oddReal = ((imaginary[a] as number) + (imaginary[b] as number)) / 2;
      const oddImaginary = ((real[b] as number) - (real[a] as number)) / 2;
      const c = cosine[k] as number;
      const s = sine[k] as number;
      const x = evenReal + oddReal * c + oddImaginary * s;
      const y = evenImaginary + oddImaginary * c - oddReal * s;
      power[k] = x * x + y * y;
    }
    return power;
  };
}

/** Decimation in time: a stage of radix r takes every r-th input, so the inputs of the first stage lie in this order. */
function decimationOrder(radices: readonly number[]): Int32Array {
  let order = [0];
  for (const radix of radices) {
    const inner = order;
    order = Array.from({ length: radix }, (_, q) => inner.map((index) => q + radix * index)).flat();
  }
  return Int32Array.from(order);
}
