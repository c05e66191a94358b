import type { ImageGeometry, Kernel, Size } from './preparation.ts';

interface Filter {
  support: number;
  at(distance: number): number;
}

const sinc = (x: number): number => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

/** As in Pillow. */
const FILTERS: Readonly<Record<Kernel, Filter>> = {
  nearest: { support: 0.5, at: () => 1 },
  linear: { support: 1, at: (x) => Math.max(0, 1 - Math.abs(x)) },
  cubic: {
    support: 2,
    at(distance) {
      const x = Math.abs(distance);
      if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
      return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
    },
  },
  lanczos3: { support: 3, at: (x) => (Math.abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0) },
};

/** Where a pixel of the result takes its value from: weights of neighbours. */
interface Taps {
  from: number;
  weights: readonly number[];
}

/**
 * Resizes and crops an image of three bytes for each pixel. libvips places enlarged images up to half a pixel off; large images are left to it,
 * because it decodes and shrinks them line by line.
 */
export function enlarged(
  pixels: Buffer,
  { width, height }: Size,
  { resized, crop }: ImageGeometry,
  kernel: Kernel,
): Buffer {
  const filter = FILTERS[kernel];
  const columns = tapsOf(width, { to: resized.width, first: crop.left, count: crop.width }, filter);
  const rows = tapsOf(height, { to: resized.height, first: crop.top, count: crop.height }, filter);
  const [top, bottom] = [rows[0]?.from ?? 0, end(rows.at(-1))];
  const wide = new Float32Array((bottom - top) * crop.width * 3);
  let at = 0;
  for (let y = top; y < bottom; y++) {
    for (const { from, weights } of columns) {
      for (let channel = 0; channel < 3; channel++)
        wide[at++] = sum(pixels, (y * width + from) * 3 + channel, 3, weights);
    }
  }
  const result = Buffer.alloc(crop.width * crop.height * 3);
  const stride = crop.width * 3;
  rows.forEach(({ from, weights }, row) => {
    for (let i = 0; i < stride; i++) {
      const value = sum(wide, (from - top) * stride + i, stride, weights);
      result[row * stride + i] = Math.min(255, Math.max(0, Math.round(value)));
    }
  });
  return result;
}

const end = (taps: Taps | undefined): number => (taps === undefined ? 0 : taps.from + taps.weights.length);

function sum(values: ArrayLike<number>, at: number, step: number, weights: readonly number[]): number {
  let total = 0;
  for (let i = 0; i < weights.length; i++) total += (values[at + i * step] as number) * (weights[i] as number);
  return total;
}

function tapsOf(
  edge: number,
  { to, first, count }: { to: number; first: number; count: number },
  filter: Filter,
): Taps[] {
  const scale = edge / to;
  const stretch = Math.max(1, scale);
  const support = filter.support * stretch;
  return Array.from({ length: count }, (_, index) => {
    const centre = (first + index + 0.5) * scale;
    const from = Math.max(0, Math.floor(centre - support + 0.5));
    const until = Math.max(from + 1, Math.min(edge, Math.floor(centre + support + 0.5)));
    const weights = Array.from({ length: until - from }, (_each, i) => filter.at((from + i + 0.5 - centre) / stretch));
    const total = weights.reduce((total, weight) => total + weight, 0);
    return { from, weights: weights.map((weight) => weight / total) };
  });
}
