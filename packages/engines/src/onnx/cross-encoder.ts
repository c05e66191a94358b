import type { RerankCapability } from '@baobab/core/engine/engine.ts';
import { cutTokens, pairIn, roomIn } from '@baobab/core/engine/truncation.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import type { Batcher } from './batcher.ts';
import { joined, mapInSlices } from './encoder.ts';
import type { EncoderSequence } from './session.ts';
import type { Encode, Template } from './tokenizer/template.ts';
import { windows } from './windows.ts';

export interface CrossEncoderDependencies {
  contextLength: number;
  template: Template['pair'];
  encode: Encode;
  batcher: Batcher;
}

/** A query may fill the context up to this share; the rest belongs to the document. */
const QUERY_SHARE = 0.75;
const QUERY: FieldPath = ['query'];

/** Query and document are read together; the score is the sigmoid of the model's one logit. */
export function createCrossEncoder(dependencies: CrossEncoderDependencies): RerankCapability {
  const { contextLength, template, encode, batcher } = dependencies;
  const { before, between, after, secondType } = template;
  const added = before.length + between.length + after.length;
  const queryLimit = Math.floor((contextLength - added) * QUERY_SHARE);

  return {
    async rerank({ query, documents, truncation, maxDocumentTokens }, context) {
      const { maxTokens, side = 'end' } = truncation ?? {};
      const readsParts = maxTokens === undefined;
      const room = roomIn(readsParts ? contextLength : Math.min(maxTokens, contextLength), added, 2);
      let queryIds = encode(query);
      const isQueryCut = readsParts && queryIds.length > queryLimit;
      if (isQueryCut && truncation === undefined) {
        throw new ApiError(
          'context_length_exceeded',
          fieldText`This model's maximum context length is ${contextLength} tokens. However, your ${QUERY} resulted in ${queryIds.length} tokens, and only ${queryLimit} have room beside a document. Shorten it.`,
          { field: QUERY },
        );
      }
      if (isQueryCut) queryIds = cutTokens(queryIds, queryLimit, side);
      const whole = joined(before, queryIds, between);
      const sequences: EncoderSequence[] = [];
      const documentOf: number[] = [];
      let truncated = 0;
      await mapInSlices(documents, context.signal, (document, index) => {
        const ids = encode(document);
        const start = cutTokens(ids, maxDocumentTokens ?? ids.length, 'end');
        const most = readsParts
          ? { query: queryIds.length, document: start.length }
          : pairIn(room, queryIds.length, start.length);
        if (isQueryCut || most.query < queryIds.length || most.document < ids.length) truncated += 1;
        const head =
          most.query < queryIds.length ? joined(before, cutTokens(queryIds, most.query, side), between) : whole;
        const kept = cutTokens(start, most.document, side);
        for (const part of readsParts ? windows(kept, room - queryIds.length) : [kept]) {
          sequences.push({ ids: joined(head, part, after), second: { from: head.length, type: secondType } });
          documentOf.push(index);
        }
      });
      const scores = new Float32Array(documents.length);
      await batcher.submit({
        sequences,
        context,
        onRow(index, { output, row }) {
          const document = documentOf[index] ?? 0;
          const labels = output.dims[1] ?? 1;
          // With two labels the last one means "relevant".
          const logit = output.data[row * labels + labels - 1] as number;
          const other = labels > 1 ? (output.data[row * labels] as number) : 0;
          scores[document] = Math.max(scores[document] as number, 1 / (1 + Math.exp(other - logit)));
        },
      });
      return { scores, tokens: sequences.reduce((total, { ids }) => total + ids.length, 0), truncated };
    },
  };
}
