import { errors } from '../../../errors/errors.ts';
import type { EmbeddingRequest } from '../../engine.ts';
import type { Upstream } from '../routing/upstream.ts';
import type { UpstreamRequest } from '../routing/upstream-call.ts';

/** TEI and Ollama silently truncate on their OpenAI-style routes. Their own routes can be told not to. */
export function embeddingRequest(
  inputs: EmbeddingRequest['inputs'],
  { settings, model }: Upstream,
): Pick<UpstreamRequest, 'base' | 'route' | 'body'> {
  switch (settings.kind) {
    case 'tei':
      return {
        base: 'root',
        route: '/embed',
        body: JSON.stringify({ inputs, truncate: false, normalize: true }),
      };
    case 'ollama':
      if (inputs.some((input) => typeof input !== 'string')) {
        throw errors.unsupportedParameter(['inputs'], 'This model takes text only, no token ids.');
      }
      return { base: 'root', route: '/api/embed', body: JSON.stringify({ model, input: inputs, truncate: false }) };
    default:
      return {
        base: 'api',
        route: '/embeddings',
        body: JSON.stringify({ model, input: inputs, encoding_format: 'base64' }),
      };
  }
}
