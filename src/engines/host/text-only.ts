import { errors } from '../../errors/errors.ts';
import type { ChatRequest, EmbeddingInput, TextInput } from '../engine.ts';

const isText = (input: EmbeddingInput): input is TextInput => typeof input === 'string' || !('url' in input);

/** Models that run here take no images, whatever their catalog entry says. */
export function textInputs(inputs: readonly EmbeddingInput[]): readonly TextInput[] {
  if (inputs.every(isText)) return inputs;
  throw errors.unsupportedParameter(
    ['inputs', inputs.findIndex((input) => !isText(input))],
    'This model runs here, where images are not supported. Models behind upstreams can take them.',
  );
}

export function refuseImages({ prompt }: ChatRequest): void {
  const at = 'messages' in prompt ? prompt.messages.findIndex(({ images = [] }) => images.length > 0) : -1;
  if (at === -1) return;
  throw errors.unsupportedParameter(
    ['messages', at, 'content'],
    'This model runs here, where images are not supported. Models behind upstreams can take them.',
  );
}
