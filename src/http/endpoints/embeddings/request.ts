import type { Static } from 'typebox';
import type { EmbeddingCommand } from '../../../services/embeddings.ts';
import type { FieldNames } from '../../answer/field-names.ts';
import type { EmbeddingRequest } from './schema.ts';

export const embeddingFieldNames: FieldNames = { inputs: 'input' };

/** The wire takes one text, many texts, one list of token ids or many; the service always takes many. */
function inputsOf(input: Static<typeof EmbeddingRequest>['input']): EmbeddingCommand['inputs'] {
  if (typeof input === 'string') return [input];
  return typeof input[0] === 'number' ? [input as number[]] : (input as string[] | number[][]);
}

export const embeddingCommand = ({ model, input, dimensions }: Static<typeof EmbeddingRequest>): EmbeddingCommand => ({
  model,
  inputs: inputsOf(input),
  dimensions: dimensions ?? undefined,
});
