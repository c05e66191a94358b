import { errors } from '../../errors/errors.ts';
import { type FieldPath, fieldText } from '../../errors/fields.ts';
import type { EmbeddingCapability, EmbeddingRequest, TextInput } from '../engine.ts';
import { type Encoder, joined, mapInSlices } from './encoder.ts';
import { pool } from './pooling.ts';

export function createEmbedding({ spec, tokenizer, batcher }: Encoder): EmbeddingCapability {
  const { single } = tokenizer.template;
  const { inputPrefix: prefix = '', pooling = 'mean' } = spec.engine.options;
  const prefixIds = tokenizer.encode(prefix);

  const idsOf = (input: string | readonly number[], index: number) => {
    const field = ['inputs', index];
    if (typeof input !== 'string') checkIds(input, field, tokenizer.vocabularySize);
    const ids =
      typeof input === 'string'
        ? tokenizer.encode(prefix + input, single)
        : joined(single.before, prefixIds, input, single.after);
    if (ids.length > spec.contextLength) throw errors.contextTooLong(field, ids.length, spec.contextLength);
    return { ids };
  };

  return {
    async embed({ inputs, dimensions = spec.dimensions ?? 0 }: EmbeddingRequest<TextInput>, { signal, priority }) {
      const sequences = await mapInSlices(inputs, signal, idsOf);
      const vectors = new Float32Array(inputs.length * dimensions);
      await batcher.submit({
        sequences,
        signal,
        priority,
        onRow: (index, row) => pool(row, pooling, vectors.subarray(index * dimensions, (index + 1) * dimensions)),
      });
      return { vectors, dimensions, tokens: sequences.map(({ ids }) => ids.length) };
    },
  };
}

function checkIds(ids: readonly number[], field: FieldPath, vocabularySize: number): void {
  const wrong = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabularySize);
  if (wrong === undefined) return;
  throw errors.invalidParameter(
    field,
    fieldText`${field} holds ${wrong}, which is not a token of this model. Token ids are whole numbers from 0 to ${vocabularySize - 1}.`,
  );
}
