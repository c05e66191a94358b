import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LoadSpec } from '@baobab/core/engine/driver.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import type { Tensor } from 'onnxruntime-node';
import type { OnnxOptions } from '../driver.ts';
import { createRuntimeSession, outputOf } from '../session.ts';
import { createImageBatcher, type ImageWork } from './image-batcher.ts';
import { createImageReader } from './image-reader.ts';
import { readPreparation } from './preparation.ts';

/** The half of a CLIP model that reads images. */
export interface ImageEncoder extends AsyncDisposable {
  /** Gives the projected vector of each image, not of unit length. */
  embed(
    images: readonly { url: string; field: FieldPath }[],
    work: Pick<ImageWork, 'context' | 'onVector'>,
  ): Promise<void>;
}

const OUTPUTS = ['image_embeds'];
/** Four images of the usual size: ViT-B/32 makes 200 tokens of them. Larger batches take as long for each image, and others wait for them. */
const BATCH_PIXELS = 4 * 224 * 224;

export async function loadImageEncoder(spec: LoadSpec<OnnxOptions>, file: string): Promise<ImageEncoder> {
  const { directory, threads, engine } = spec;
  const config = JSON.parse(await readFile(join(directory, 'preprocessor_config.json'), 'utf8'));
  const preparation = readPreparation(config);
  const reader = createImageReader(preparation);
  const rowWiseRanges = engine.options.activationRanges === 'token';
  const { runtime, session } = await createRuntimeSession({ model: join(directory, file), threads, rowWiseRanges });
  const output = outputOf(session, OUTPUTS);
  const [input = ''] = session.inputNames;
  const { width, height } = preparation.crop;
  const size = 3 * width * height;

  async function run(images: readonly Float32Array[]): Promise<Float32Array[]> {
    const pixels = new Float32Array(images.length * size);
    images.forEach((image, index) => {
      pixels.set(image, index * size);
    });
    const tensor = new runtime.Tensor('float32', pixels, [images.length, 3, height, width]);
    const { data, dims } = (await session.run({ [input]: tensor }, [output]))[output] as Tensor;
    const columns = dims[1] ?? 0;
    return images.map((_, row) => (data as Float32Array).slice(row * columns, (row + 1) * columns));
  }

  const batcher = createImageBatcher({ most: Math.max(1, Math.floor(BATCH_PIXELS / (width * height))), run });
  return {
    embed: (images, work) =>
      batcher.submit({
        ...work,
        count: images.length,
        decode(index) {
          const { url = '', field = [] } = images[index] ?? {};
          return reader.decode(url, field);
        },
      }),
    async [Symbol.asyncDispose]() {
      await Promise.all([session.release(), reader[Symbol.asyncDispose]()]);
    },
  };
}
