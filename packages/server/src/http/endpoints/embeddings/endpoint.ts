import type { Static } from 'typebox';
import type { InferenceCall } from '../../../inference/call.ts';
import type { EmbeddingCommand, EmbeddingsService } from '../../../inference/embeddings.ts';
import { EmbeddingRequest } from './schema.ts';
import { writeEmbeddings } from './vector-json.ts';

type EmbeddingBody = Static<typeof EmbeddingRequest>;
type Input = EmbeddingBody['input'];
type Item = Exclude<Input, string>[number];

/** The wire takes one text, many texts or images, one list of token ids or many; the service always takes many. */
function inputsOf(input: Input): EmbeddingCommand['inputs'] {
  if (typeof input === 'string') return [input];
  return typeof input[0] === 'number' ? [input as number[]] : (input as Exclude<Item, number>[]).map(inputOf);
}

function inputOf(item: Exclude<Item, number>, index: number): EmbeddingCommand['inputs'][number] {
  if (typeof item === 'string' || Array.isArray(item)) return item;
  if ('text' in item) return item.text;
  const source = item.image.startsWith('file_') ? { fileId: item.image } : { url: item.image };
  return { source, field: ['inputs', index, 'image'] };
}

const commandOf = ({ model, input, dimensions }: EmbeddingBody): EmbeddingCommand => ({
  model,
  inputs: inputsOf(input),
  dimensions: dimensions ?? undefined,
});

/** What the route and the lines of batches share. */
export const embeddingEndpoint = {
  schema: EmbeddingRequest,
  fieldNames: { inputs: 'input' },

  /** The JSON of the answer: a string if it is short, else bytes. */
  async answer(embeddings: EmbeddingsService, call: InferenceCall, body: EmbeddingBody): Promise<string | Buffer> {
    const { model, encoding_format: format } = body;
    const { answer } = await embeddings.embed<string | Buffer>(
      call,
      commandOf(body),
      ({ vectors, dimensions }, promptTokens) =>
        writeEmbeddings({ vectors, dimensions, model, promptTokens, format: format ?? 'float' }),
    );
    return answer;
  },
};
