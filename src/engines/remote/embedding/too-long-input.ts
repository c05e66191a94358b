import { errors } from '../../../errors/errors.ts';
import type { EmbeddingRequest } from '../../engine.ts';
import type { UpstreamFailure } from '../failure/failure.ts';
import type { UpstreamCall } from '../routing/upstream-call.ts';
import type { InputSlice } from '../split-inputs.ts';
import { countAtUpstream } from '../upstream-tokenizer.ts';

/** Upstreams say that some input is too long, but not which one. Finds it, so that the error can name it. */
export async function nameTooLongInput(
  { start, items }: InputSlice<EmbeddingRequest['inputs'][number]>,
  call: UpstreamCall,
  failure: UpstreamFailure,
  contextLength: number,
): Promise<Error> {
  const { apiError } = failure;
  // Another Baobab names the input by its position in our call.
  if (typeof apiError.field === 'object' && typeof apiError.field[1] === 'number') {
    return apiError.mapFields(([name = '', index = 0]) => [name, start + Number(index)]);
  }
  const texts = items.map((item) => (typeof item === 'string' ? item : ''));
  const counts = await countAtUpstream(call, texts, ['inputs']).catch(() => undefined);
  const sizes = items.map((item, i) => (Array.isArray(item) ? item.length : (counts?.[i] ?? 0)));
  const tooLong = sizes.findIndex((size) => size > contextLength);
  if (tooLong !== -1) return errors.contextTooLong(['inputs', start + tooLong], sizes[tooLong] ?? 0, contextLength);
  // TEI does not count a text that has too many characters.
  const maxCharacters = Number(/less than (\d+) characters/.exec(failure.detail)?.[1] ?? Infinity);
  const at = texts.findIndex((text) => text.length >= maxCharacters);
  return at === -1 ? failure : apiError.mapFields(() => ['inputs', start + at]);
}
