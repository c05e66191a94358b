import { errors } from '../errors/errors.ts';
import { fieldText } from '../errors/fields.ts';
import type { Truncation } from './engine.ts';

/** The most tokens of an input that is cut, special tokens included. */
export const tokenLimit = ({ maxTokens = Number.POSITIVE_INFINITY }: Truncation, contextLength: number): number =>
  Math.min(maxTokens, contextLength);

/** `most` of the tokens. */
export const cutTokens = (ids: Int32Array, most: number, side: Truncation['side']): Int32Array =>
  side === 'end' ? ids.subarray(0, most) : ids.subarray(Math.max(0, ids.length - most));

/** Cuts what is between the first and the last so many tokens, which stay. */
export function cutBetween(
  ids: Int32Array,
  limit: number,
  { side, first, last }: { side: Truncation['side']; first: number; last: number },
): Int32Array {
  const inner = cutTokens(ids.subarray(first, ids.length - last), roomIn(limit, first + last), side);
  const kept = new Int32Array(first + inner.length + last);
  kept.set(ids.subarray(0, first));
  kept.set(inner, first);
  kept.set(ids.subarray(ids.length - last), first + inner.length);
  return kept;
}

/** What the limit leaves besides the tokens that the model adds. `texts`: each needs one token at least. */
export function roomIn(limit: number, added: number, texts = 1): number {
  const least = added + texts;
  if (limit >= least) return limit - added;
  throw errors.invalidParameter(
    ['truncation', 'maxTokens'],
    fieldText`${['truncation', 'maxTokens']} must be at least ${least} for this model: ${added} of the tokens are those that it adds to a text.`,
  );
}

/** How many tokens of a query and a document are read together. The longer one is cut first. */
export function pairIn(room: number, query: number, document: number): { query: number; document: number } {
  const forDocument = Math.min(document, Math.max(room - query, Math.ceil(room / 2)));
  return { query: Math.min(query, room - forDocument), document: forDocument };
}
