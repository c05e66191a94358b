import type { Static } from 'typebox';
import type { EmbeddingCommand } from '../../../inference/embeddings.ts';
import type { FieldNames } from '../../answer/field-names.ts';
import type { EmbeddingRequest } from './schema.ts';

export const embeddingFieldNames: FieldNames = { inputs: 'input' };

type Input = Static<typeof EmbeddingRequest>['input'];
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

export const embeddingCommand = ({ model, input, dimensions }: Static<typeof EmbeddingRequest>): EmbeddingCommand => ({
  model,
  inputs: inputsOf(input),
  dimensions: dimensions ?? undefined,
});
