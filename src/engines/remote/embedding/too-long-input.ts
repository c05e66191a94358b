import { errors } from '../../../errors/errors.ts';
import type { EmbeddingRequest } from '../../engine.ts';
import type { UpstreamFailure } from '../failure/failure.ts';
import type { UpstreamCall } from '../routing/upstream-call.ts';
import type { InputSlice } from '../split-inputs.ts';
import { countAtUpstream } from '../upstream-tokenizer.ts';

/** Counts the tokens of the inputs at the upstream, and returns an error that names the one that is too long. */
export async function findTooLongInput(
  { start, items }: InputSlice<EmbeddingRequest['inputs'][number]>,
  call: UpstreamCall,
  failure: UpstreamFailure,
  contextLength: number,
): Promise<Error | undefined> {
  const texts = items.map((item) => (typeof item === 'string' ? item : ''));
  const counts = await countAtUpstream(call, texts, ['inputs']).catch(() => undefined);
  const sizes = items.map((item, i) => (Array.isArray(item) ? item.length : (counts?.[i] ?? 0)));
  const tooLong = sizes.findIndex((size) => size > contextLength);
  if (tooLong !== -1) return errors.contextTooLong(['inputs', start + tooLong], sizes[tooLong] ?? 0, contextLength);
  // TEI does not count a text that has too many characters.
  const maxCharacters = Number(/less than (\d+) characters/.exec(failure.detail)?.[1] ?? Infinity);
  const at = texts.findIndex((text) => text.length >= maxCharacters);
  return at === -1 ? undefined : failure.apiError.mapFields(() => ['inputs', start + at]);
}
