import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import type { Metadata, Sharp, SharpOptions } from 'sharp';
import { enlarged } from './enlarge.ts';
import { geometryOf, type ImagePreparation } from './preparation.ts';

/** Turns an image into the floats of a model's input: red, green and blue one after the other. */
export type DecodeImage = (dataUrl: string, field: FieldPath) => Promise<Float32Array>;

/** Nothing else is decoded, such as SVG, which can name other files. */
const LOADERS = ['JpegBuffer', 'PngBuffer', 'WebpBuffer', 'NsgifBuffer'].map((name) => `VipsForeignLoad${name}`);
const MAX_JPEG_PIXELS = 64_000_000;
/** Only JPEGs are decoded at a smaller size. A transparent WebP takes 15 bytes for each pixel. */
const MAX_PIXELS = 16_000_000;
const MAX_SECONDS = 30;
/** Colour profiles are ignored, as in the training of the models. */
const READING: SharpOptions = { failOn: 'error', ignoreIcc: true, limitInputPixels: MAX_JPEG_PIXELS };

export async function createImageDecoder(preparation: ImagePreparation): Promise<DecodeImage> {
  const { default: sharp } = await import('sharp');
  sharp.block({ operation: ['VipsForeignLoad'] });
  sharp.unblock({ operation: LOADERS });
  sharp.concurrency(1);
  sharp.cache(false);

  /** Without its alpha channel. It is removed first: otherwise resizing would blacken what is transparent. */
  async function open(bytes: Buffer, { hasAlpha }: Metadata): Promise<Sharp> {
    const image = sharp(bytes, READING).autoOrient().timeout({ seconds: MAX_SECONDS });
    if (!hasAlpha) return image;
    const { data, info } = await opaque(image);
    return sharp(data, { raw: { width: info.width, height: info.height, channels: 3 } });
  }

  async function decode(bytes: Buffer, field: FieldPath): Promise<Buffer> {
    const head = await sharp(bytes, { ...READING, limitInputPixels: false }).metadata();
    checkSize(head, field);
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

  return async (dataUrl, field) => {
    const bytes = Buffer.from(dataUrl.slice(dataUrl.indexOf(',') + 1), 'base64');
    try {
      return floatsOf(await decode(bytes, field), preparation);
    } catch (error) {
      if (error instanceof ApiError) throw error;
      const message = 'The image cannot be decoded: it is damaged or not complete.';
      throw new ApiError('validation_failed', message, { field, cause: error });
    }
  };
}

/** Three bytes for each pixel. */
const opaque = (image: Sharp) => image.removeAlpha().toColourspace('srgb').raw().toBuffer({ resolveWithObject: true });

function checkSize({ width, height, format }: Metadata, field: FieldPath): void {
  const most = format === 'jpeg' ? MAX_JPEG_PIXELS : MAX_PIXELS;
  if (width * height <= most) return;
  throw errors.validationFailed(
    field,
    `The image is ${width} × ${height} pixels; this model takes JPEGs of up to ${MAX_JPEG_PIXELS} pixels and other images of up to ${MAX_PIXELS}.`,
  );
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
