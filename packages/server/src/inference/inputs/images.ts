import {
  estimateImageTokens,
  IMAGE_HEAD_BYTES,
  type ImageHead,
  readImageHead,
  UNKNOWN_IMAGE_TOKENS,
} from '@baobab/core/domain/image.ts';
import type { ModelEntry } from '@baobab/core/domain/model.ts';
import type { ImageDetail, ImageInput } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Field } from '@baobab/core/errors/fields.ts';
import { createAccountAmounts } from '../../admission/account-amounts.ts';
import { type AttachmentLimits, checkAttachments, type InputFiles, readFileStart } from './attachments.ts';

/** An image as the client named it. */
export interface ImageReference {
  source: { url: string } | { fileId: string };
  detail?: ImageDetail | undefined;
  field: Field;
}

/** A checked image. Files are read only when it is loaded, after the request was admitted. */
export interface CheckedImage {
  tokens: number;
  /** 0 if the engine fetches it. */
  bytes: number;
  load(): Promise<ImageInput>;
}

export interface ImagesService {
  /** Checks number, size, type and place of the images of one request. Throws the error for the client. */
  check(accountId: string, references: readonly ImageReference[]): Promise<CheckedImage[]>;
  /** Reads their content. Throws 429 instead if the account has too many images in memory, in requests that run or wait. */
  load(accountId: string, images: readonly CheckedImage[]): Promise<LoadedImages>;
}

/** Disposed of when the engine has ended. */
export interface LoadedImages extends Disposable {
  inputs: readonly ImageInput[];
}

export interface ImagesSettings extends AttachmentLimits {
  /** Engines may fetch images from these hosts. */
  allowedHosts: readonly string[];
}

export interface ImagesDependencies {
  files: InputFiles;
  settings: ImagesSettings;
}

/** A small file can hold an image that fills the memory of the engine that decodes it. */
const MAX_PIXELS = 64_000_000;
const DATA_URL = /^data:([^,;]{0,80})(;base64)?,/i;
const ACCEPTED = 'PNG, JPEG, GIF and WebP images are accepted';

/** The images of an account that are in memory have at most this many times the size of those of one request. */
const LARGEST_AT_ONCE = 8;

/** Refuses images for models that cannot see. */
export function checkVision({ capabilities, slug }: ModelEntry, [image]: readonly ImageReference[]): void {
  if (image === undefined || capabilities.vision) return;
  throw errors.unsupportedParameter(image.field, `The model '${slug}' takes text only, no images.`);
}

export function createImages({ files, settings }: ImagesDependencies): ImagesService {
  const held = createAccountAmounts(LARGEST_AT_ONCE * settings.maxBytes);
  const allowedHosts = new Set(settings.allowedHosts.map((host) => host.toLowerCase()));

  function checkHead(head: Uint8Array, field: Field): ImageHead {
    const image = readImageHead(head);
    if (image === undefined) {
      throw errors.unsupportedParameter(field, `The image cannot be read: ${ACCEPTED}.`);
    }
    const pixels = image.width * image.height;
    if (pixels === 0 || pixels > MAX_PIXELS) {
      throw errors.validationFailed(
        field,
        `The image is ${image.width} × ${image.height} pixels; 1 to ${MAX_PIXELS} pixels are accepted.`,
      );
    }
    return image;
  }

  function checkDataUrl(url: string, field: Field): { bytes: number; tokens: number } {
    const [head, , isBase64] = DATA_URL.exec(url.slice(0, 100)) ?? [];
    if (head === undefined || isBase64 === undefined) {
      throw errors.invalidParameter(field, "A data URL must look like 'data:image/png;base64,…'.");
    }
    const characters = url.length - head.length;
    const start = Buffer.from(url.slice(head.length, head.length + Math.ceil(IMAGE_HEAD_BYTES / 3) * 4), 'base64');
    return { bytes: Math.floor((characters * 3) / 4), tokens: estimateImageTokens(checkHead(start, field)) };
  }

  function checkAddress(url: string, field: Field): void {
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (parsed?.protocol !== 'https:' && parsed?.protocol !== 'http:') {
      throw errors.invalidParameter(field, "An image is a data URL such as 'data:image/png;base64,…'.");
    }
    if (!allowedHosts.has(parsed.hostname)) {
      throw errors.unsupportedParameter(
        field,
        `Images are not fetched from '${parsed.hostname.slice(0, 100)}'. Send the image as a data URL.`,
      );
    }
  }

  async function checkFile(accountId: string, fileId: string, field: Field) {
    const file = await files.get(accountId, fileId, field);
    if (file.purpose !== 'vision') {
      throw errors.invalidParameter(
        field,
        `The file '${file.id}' has the purpose '${file.purpose}'; upload images with 'vision'.`,
      );
    }
    const head = await readFileStart(files, file, IMAGE_HEAD_BYTES);
    return { file, image: checkHead(head, field) };
  }

  return {
    async check(accountId, references) {
      const count = checkAttachments('images', references, settings);
      const checked: CheckedImage[] = [];
      for (const { source, detail, field } of references) {
        if ('fileId' in source) {
          const { file, image } = await checkFile(accountId, source.fileId, field);
          count(file.bytes, field);
          const tokens = estimateImageTokens(image);
          const load = async (): Promise<ImageInput> => {
            const content = (await readFileStart(files, file)).toString('base64');
            return { url: `data:${image.mediaType};base64,${content}`, detail, tokens };
          };
          checked.push({ tokens, bytes: file.bytes, load });
          continue;
        }
        const { url } = source;
        let [tokens, bytes] = [UNKNOWN_IMAGE_TOKENS, 0];
        if (/^data:/i.test(url)) {
          ({ tokens, bytes } = checkDataUrl(url, field));
          count(bytes, field);
        } else checkAddress(url, field);
        checked.push({ tokens, bytes, load: async () => ({ url, detail, tokens }) });
      }
      return checked;
    },

    async load(accountId, images) {
      const bytes = images.reduce((sum, image) => sum + image.bytes, 0);
      if (!held.add(accountId, bytes))
        throw errors.tooManyAtOnce('bytes of images are in the running requests of this account');
      const release = () => held.remove(accountId, bytes);
      try {
        return { inputs: await Promise.all(images.map(({ load }) => load())), [Symbol.dispose]: release };
      } catch (error) {
        release();
        throw error;
      }
    },
  };
}
