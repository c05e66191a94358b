import { Unusable } from '@baobab/core/sandbox/sandboxed-program.ts';
import sharp, { type Metadata, type Sharp, type SharpOptions } from 'sharp';
import { geometryOf, type ImageGeometry, type ImagePreparation, type Kernel, type Size } from './preparation.ts';

export type ImageFailure =
  | { reason: 'damaged' }
  | { reason: 'too-large'; width: number; height: number; maxJpegPixels: number; maxPixels: number };

/** Turns an image into the floats of a model's input: red, green and blue one after the other. */
type DecodeImage = (bytes: Buffer) => Promise<Float32Array>;

/** Nothing else is decoded, such as SVG, which can name other files. */
const LOADERS = ['JpegBuffer', 'PngBuffer', 'WebpBuffer', 'NsgifBuffer'].map((name) => `VipsForeignLoad${name}`);
const MAX_JPEG_PIXELS = 64_000_000;
/** Only JPEGs are decoded at a smaller size. A transparent WebP takes 15 bytes for each pixel. */
const MAX_PIXELS = 16_000_000;
const MAX_SECONDS = 30;
/** Colour profiles are ignored, as in the training of the models. */
const READING: SharpOptions = { failOn: 'error', ignoreIcc: true, limitInputPixels: MAX_JPEG_PIXELS };

sharp.block({ operation: ['VipsForeignLoad'] });
sharp.unblock({ operation: LOADERS });
sharp.concurrency(1);
sharp.cache(false);

export function createImageDecoder(preparation: ImagePreparation): DecodeImage {
  /** Without its alpha channel. It is removed first: otherwise resizing would blacken what is transparent. */
  async function open(bytes: Buffer, { hasAlpha }: Metadata): Promise<Sharp> {
    const image = sharp(bytes, READING).autoOrient().timeout({ seconds: MAX_SECONDS });
    if (!hasAlpha) return image;
    const { data, info } = await opaque(image);
    return sharp(data, { raw: { width: info.width, height: info.height, channels: 3 } });
  }

  async function decode(bytes: Buffer): Promise<Buffer> {
    const head = await sharp(bytes, { ...READING, limitInputPixels: false }).metadata();
    checkSize(head);
    const geometry = geometryOf(head.autoOrient, preparation);
    const { part, resized, crop } = geometry;
    const { width, height } = part ?? head.autoOrient;
    let image = await open(bytes, head);
    if (part !== undefined) image = image.extract(part);
    if (resized.width > width || resized.height > height) {
      return enlarged((await opaque(image)).data, { width, height }, geometry, preparation.kernel);
    }
    const shrunk = image.resize({ ...resized, fit: 'fill', kernel: preparation.kernel, fastShrinkOnLoad: false });
    return (await opaque(shrunk.extract(crop))).data;
  }

  return async (bytes) => {
    try {
      return floatsOf(await decode(bytes), preparation);
    } catch (error) {
      throw error instanceof Unusable ? error : new Unusable<ImageFailure>({ reason: 'damaged' }, error);
    }
  };
}

/** Three bytes for each pixel. */
const opaque = (image: Sharp) => image.removeAlpha().toColourspace('srgb').raw().toBuffer({ resolveWithObject: true });

function checkSize({ width, height, format }: Metadata): void {
  const limits = { maxJpegPixels: MAX_JPEG_PIXELS, maxPixels: MAX_PIXELS };
  const most = format === 'jpeg' ? MAX_JPEG_PIXELS : MAX_PIXELS;
  if (width * height > most) throw new Unusable<ImageFailure>({ reason: 'too-large', width, height, ...limits });
}

function floatsOf(pixels: Buffer, { scale, shift }: ImagePreparation): Float32Array {
  const size = pixels.length / 3;
  const floats = new Float32Array(pixels.length);
  for (let channel = 0; channel < 3; channel++) {
    const [by, plus] = [scale[channel] as number, shift[channel] as number];
    for (let i = 0; i < size; i++) floats[channel * size + i] = (pixels[i * 3 + channel] as number) * by + plus;
  }
  return floats;
}

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
function enlarged(pixels: Buffer, { width, height }: Size, { resized, crop }: ImageGeometry, kernel: Kernel): Buffer {
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
