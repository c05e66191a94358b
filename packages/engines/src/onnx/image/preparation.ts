/** How a model wants its images, read from `preprocessor_config.json` as transformers writes it. */
export interface ImagePreparation {
  /** Length of the shorter edge after resizing; or both edges, whatever the image's shape is. */
  resize: { shortest: number } | Size;
  /** Cut from the middle of the resized image. */
  crop: Size;
  kernel: Kernel;
  /** A byte of each channel becomes `byte * scale + shift`. */
  scale: Channels;
  shift: Channels;
}

export interface Size {
  width: number;
  height: number;
}

export interface Region extends Size {
  left: number;
  top: number;
}

export interface ImageGeometry {
  /** The part of the image to decode; undefined: all of it. */
  part: Region | undefined;
  /** Size of that part after resizing. */
  resized: Size;
  /** Region of the resized image that is used. */
  crop: Region;
}

type Channels = readonly [number, number, number];
export type Kernel = 'nearest' | 'lanczos3' | 'linear' | 'cubic';

/** By the numbers of Pillow. */
const KERNELS: readonly (Kernel | undefined)[] = ['nearest', 'lanczos3', 'linear', 'cubic'];
const DEFAULT_EDGE = 224;
const BICUBIC = 3;
const CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073];
const CLIP_STD = [0.26862954, 0.26130258, 0.27577711];
/**
 * Only the middle of an image that is longer than this many times its shorter edge is resized: the model sees no more, and the whole would
 * become a band of millions of pixels.
 */
const MAX_RATIO = 4;

export function readPreparation(config: Readonly<Record<string, unknown>>): ImagePreparation {
  const resize = resizeOf(config.size ?? DEFAULT_EDGE);
  const crop = cropOf(config, resize);
  const resample = config.resample ?? BICUBIC;
  const kernel = typeof resample === 'number' ? KERNELS[resample] : undefined;
  if (kernel === undefined) throw unusable('resample', resample);
  const { width, height } = 'shortest' in resize ? { width: resize.shortest, height: resize.shortest } : resize;
  if (crop.width > width || crop.height > height) throw unusable('crop_size', config.crop_size);
  const factor = config.do_rescale === false ? 1 : numberOf(config.rescale_factor ?? 1 / 255, 'rescale_factor');
  const isNormalized = config.do_normalize !== false;
  const mean = isNormalized ? channelsOf(config.image_mean ?? CLIP_MEAN, 'image_mean') : ([0, 0, 0] as const);
  const std = isNormalized ? channelsOf(config.image_std ?? CLIP_STD, 'image_std') : ([1, 1, 1] as const);
  return {
    resize,
    crop,
    kernel,
    scale: [factor / std[0], factor / std[1], factor / std[2]],
    shift: [-mean[0] / std[0], -mean[1] / std[1], -mean[2] / std[2]],
  };
}

/** Rounds as transformers does, so that every pixel is where the model was trained to see it. */
export function geometryOf({ width, height }: Size, { resize, crop }: ImagePreparation): ImageGeometry {
  if (!('shortest' in resize)) return { part: undefined, resized: resize, crop: middleOf(resize, crop) };
  const short = Math.min(width, height);
  const kept = { width: keptOf(width, short), height: keptOf(height, short) };
  const resized = {
    width: Math.floor((kept.width * resize.shortest) / short),
    height: Math.floor((kept.height * resize.shortest) / short),
  };
  const isWhole = kept.width === width && kept.height === height;
  return { part: isWhole ? undefined : middleOf({ width, height }, kept), resized, crop: middleOf(resized, crop) };
}

/** Even or odd like the edge itself, so that the middle stays the middle. */
function keptOf(edge: number, short: number): number {
  const most = short * MAX_RATIO;
  return edge <= most ? edge : most + ((edge - most) % 2);
}

function middleOf(outer: Size, inner: Size): Region {
  const left = Math.floor((outer.width - inner.width) / 2);
  const top = Math.floor((outer.height - inner.height) / 2);
  return { left, top, width: inner.width, height: inner.height };
}

function resizeOf(size: unknown): ImagePreparation['resize'] {
  if (typeof size === 'number') return { shortest: edgeOf(size, 'size') };
  const { shortest_edge: shortest } = size as Record<string, unknown>;
  return shortest === undefined ? sizeOf(size, 'size') : { shortest: edgeOf(shortest, 'size') };
}

/** Networks take images of one size, so without a crop of its own the shorter edge decides. */
function cropOf(config: Readonly<Record<string, unknown>>, resize: ImagePreparation['resize']): Size {
  const whole = 'shortest' in resize ? { width: resize.shortest, height: resize.shortest } : resize;
  if (config.do_center_crop === false || config.crop_size === undefined) return whole;
  const { crop_size: crop } = config;
  return typeof crop === 'number' ? sizeOf({ width: crop, height: crop }, 'crop_size') : sizeOf(crop, 'crop_size');
}

function sizeOf(size: unknown, name: string): Size {
  const { width, height } = (size ?? {}) as Record<string, unknown>;
  return { width: edgeOf(width, name), height: edgeOf(height, name) };
}

const MAX_EDGE = 4096;

function edgeOf(edge: unknown, name: string): number {
  if (typeof edge === 'number' && Number.isInteger(edge) && edge > 0 && edge <= MAX_EDGE) return edge;
  throw unusable(name, edge);
}

function numberOf(value: unknown, name: string): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw unusable(name, value);
}

function channelsOf(value: unknown, name: string): Channels {
  const numbers = Array.isArray(value) ? value.map((each) => numberOf(each, name)) : [];
  if (numbers.length !== 3) throw unusable(name, value);
  return numbers as unknown as Channels;
}

const unusable = (name: string, value: unknown) =>
  new Error(`preprocessor_config.json has a ${name} that is not supported: ${JSON.stringify(value)}`);
