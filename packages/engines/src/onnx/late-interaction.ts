import type { RerankCapability } from '@baobab/core/engine/engine.ts';
import { cutTokens, roomIn } from '@baobab/core/engine/truncation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type Encoder, joined, mapInSlices } from './encoder.ts';
import { normalize, pool, type Row } from './pooling.ts';
import type { EncoderSequence } from './session.ts';
import { windows } from './windows.ts';

/**
 * Late interaction: the match is the mean, over the query's tokens, of the cosine with the nearest token of the document. Shares of it
 * may come from the cosine of both texts and from the tokens of the query that the document has, names above all. A logistic curve
 * spreads it over 0–1. The catalog sets its middle and steepness, because they differ between encoders; the defaults are for
 * bge-small, where 16 questions matched their own answers by 0.61–0.82 and other answers by 0.23–0.56. The curve is fixed for a
 * model, so scores compare across calls.
 */
const DEFAULT_MIDDLE = 0.58;
const DEFAULT_STEEPNESS = 20;

export function createLateInteraction({ spec, tokenizer, batcher }: Encoder): RerankCapability {
  const { before, after } = tokenizer.template.single;
  const {
    matchMiddle: middle = DEFAULT_MIDDLE,
    matchSteepness: steepness = DEFAULT_STEEPNESS,
    matchText: textShare = 0,
    matchWords: wordShare = 0,
    pooling = 'mean',
  } = spec.engine.options;

  const textVector = (row: Row): Float32Array => {
    const vector = new Float32Array(row.output.dims[2] ?? 0);
    pool(row, pooling, vector);
    return vector;
  };

  return {
    async rerank({ query, documents, truncation, maxDocumentTokens }, context) {
      const { maxTokens, side = 'end' } = truncation ?? {};
      const added = before.length + after.length;
      const room = roomIn(Math.min(maxTokens ?? spec.contextLength, spec.contextLength), added);
      const ofQuery = tokenizer.encode(query);
      if (ofQuery.length > room && truncation === undefined) {
        throw errors.contextTooLong(['query'], ofQuery.length + added, spec.contextLength);
      }
      const words = cutTokens(ofQuery, room, side);
      const queryIds = joined(before, words, after);
      const sequences: EncoderSequence[] = [];
      const documentOf: number[] = [];
      let truncated = 0;
      await mapInSlices(documents, context.signal, (document, index) => {
        const ids = tokenizer.encode(document);
        const start = cutTokens(ids, maxDocumentTokens ?? ids.length, 'end');
        const kept = maxTokens === undefined ? start : cutTokens(start, room, side);
        if (words.length < ofQuery.length || kept.length < ids.length) truncated += 1;
        for (const part of windows(kept, room)) {
          sequences.push({ ids: joined(before, part, after) });
          documentOf.push(index);
        }
      });
      let queryVectors: Float32Array[] = [];
      let queryVector: Float32Array = new Float32Array();
      await batcher.submit({
        sequences: [{ ids: queryIds }],
        context,
        onRow(_index, row) {
          queryVectors = tokenVectors(row);
          queryVector = textVector(row);
        },
      });
      const scores = new Float32Array(documents.length);
      await batcher.submit({
        sequences,
        context,
        onRow(index, row) {
          const document = documentOf[index] ?? 0;
          let matched = (1 - textShare - wordShare) * match(queryVectors, row);
          if (textShare > 0) matched += textShare * dot(queryVector, textVector(row), 0);
          if (wordShare > 0) matched += wordShare * shareOf(words, sequences[index]?.ids ?? []);
          const score = 1 / (1 + Math.exp(-steepness * (matched - middle)));
          scores[document] = Math.max(scores[document] as number, score);
        },
      });
      const tokens = sequences.reduce((total, { ids }) => total + ids.length, queryIds.length);
      return { scores, tokens, truncated };
    },
  };
}

function tokenVectors({ output, row, tokens }: Row): Float32Array[] {
  const [, columns = 0, width = 0] = output.dims;
  return Array.from({ length: tokens }, (_, token) => {
    const at = (row * columns + token) * width;
    const vector = output.data.slice(at, at + width);
    normalize(vector);
    return vector;
  });
}

/** Mean over the query's tokens of the best cosine with any token of the row. */
function match(query: readonly Float32Array[], { output, row, tokens }: Row): number {
  const [, columns = 0, width = 0] = output.dims;
  const { data } = output;
  const best = new Float64Array(query.length).fill(-1);
  for (let token = 0; token < tokens; token++) {
    const at = (row * columns + token) * width;
    const scale = 1 / norm(data, at, width);
    for (let q = 0; q < query.length; q++) {
      const cosine = dot(query[q] as Float32Array, data, at) * scale;
      if (cosine > (best[q] as number)) best[q] = cosine;
    }
  }
  return best.reduce((sum, value) => sum + value, 0) / query.length;
}

/** The share of the ids that are among the others. */
function shareOf(ids: Int32Array, others: ArrayLike<number>): number {
  const known = new Set(Array.from(others));
  return ids.filter((id) => known.has(id)).length / Math.max(1, ids.length);
}

function norm(data: Float32Array, at: number, width: number): number {
  let squares = 0;
  for (let i = at; i < at + width; i++) squares += (data[i] as number) ** 2;
  return Math.sqrt(squares);
}

/** Four sums at once: the additions of one would wait for each other. */
function dot(vector: Float32Array, data: Float32Array, at: number): number {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  const whole = vector.length & ~3;
  for (let i = 0; i < whole; i += 4) {
    a += (vector[i] as number) * (data[at + i] as number);
    b += (vector[i + 1] as number) * (data[at + i + 1] as number);
    c += (vector[i + 2] as number) * (data[at + i + 2] as number);
    d += (vector[i + 3] as number) * (data[at + i + 3] as number);
  }
  for (let i = whole; i < vector.length; i++) a += (vector[i] as number) * (data[at + i] as number);
  return a + b + c + d;
}
