import { errors } from '../../../errors/errors.ts';
import type { FieldPath } from '../../../errors/fields.ts';
import type { EmbeddingInput, ImageInput } from '../../engine.ts';
import { wireImage } from '../chat/request.ts';
import type { Upstream } from '../routing/upstream.ts';
import type { UpstreamRequest } from '../routing/upstream-call.ts';

type Request = Pick<UpstreamRequest, 'base' | 'route' | 'body'>;

/** TEI and Ollama silently truncate on their OpenAI-style routes. Their own routes can be told not to. */
export function embeddingRequest(inputs: readonly EmbeddingInput[], upstream: Upstream, field: FieldPath): Request {
  const { settings, model } = upstream;
  const [first] = inputs;
  if (typeof first === 'object' && 'url' in first) return imageRequest(first, upstream, field);
  switch (settings.kind) {
    case 'tei':
      return { base: 'root', route: '/embed', body: JSON.stringify({ inputs, truncate: false, normalize: true }) };
    case 'ollama':
      if (inputs.some((input) => typeof input !== 'string')) {
        throw errors.unsupportedParameter(['inputs'], 'This model takes text only, no token ids.');
      }
      return { base: 'root', route: '/api/embed', body: JSON.stringify({ model, input: inputs, truncate: false }) };
    default:
      return openAiRequest({ model, input: inputs });
  }
}

const openAiRequest = (body: object): Request => ({
  base: 'api',
  route: '/embeddings',
  body: JSON.stringify({ ...body, encoding_format: 'base64' }),
});

/** An image is sent alone: as a message to vLLM, otherwise in the form of Jina's API, which Baobab has too. */
function imageRequest(image: ImageInput, { settings, model }: Upstream, field: FieldPath): Request {
  switch (settings.kind) {
    case 'vllm':
      return openAiRequest({ model, messages: [{ role: 'user', content: [wireImage(image)] }] });
    case 'openai':
    case 'baobab':
      return openAiRequest({ model, input: [{ image: image.url }] });
    default:
      throw errors.unsupportedParameter(field, 'The server that runs this model does not embed images.');
  }
}
