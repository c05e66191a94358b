import type { ChatRequest, EmbeddingInput } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';

/** Whatever its catalog entry says, a model that runs here takes only what its engine can read. Nothing is fetched for it. */
export function checkInputs(inputs: readonly EmbeddingInput[], { images }: { images: boolean }): void {
  inputs.forEach((input, index) => {
    if (typeof input === 'string' || !('url' in input)) return;
    if (!images) {
      throw errors.unsupportedParameter(
        ['inputs', index],
        'This model runs here and has no encoder for images. Models with `vision` can take them.',
      );
    }
    if (!/^data:/i.test(input.url)) {
      throw errors.unsupportedParameter(
        ['inputs', index, 'image'],
        'This model runs here, where images are not fetched. Send the image as a data URL, or upload it.',
      );
    }
  });
}

export function refuseImages({ prompt }: ChatRequest): void {
  const at = 'messages' in prompt ? prompt.messages.findIndex(({ images = [] }) => images.length > 0) : -1;
  if (at === -1) return;
  throw errors.unsupportedParameter(
    ['messages', at, 'content'],
    'This model runs here, where images are not supported. Models behind upstreams can take them.',
  );
}
