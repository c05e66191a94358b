import { MAX_IMAGE_TOKENS } from '@baobab/core/domain/image.ts';
import { mostInputTokens, mostTokens } from '@baobab/core/domain/text-size.ts';
import type { CallContext, EmbeddingInput } from '@baobab/core/engine/engine.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { partOf } from '@baobab/core/runtime/work.ts';
import type { Cut } from './dialects/dialect.ts';
import { UpstreamFailure } from './failure/failure.ts';
import type { Upstream } from './routing/upstream.ts';
import type { UpstreamCall } from './routing/upstream-call.ts';
import { billedTokensAtLeast } from './token-counts.ts';

/** Consecutive inputs of one request that are sent in one call. */
export interface InputSlice<T> {
  start: number;
  items: readonly T[];
}

/** Concurrent calls of one request, so that a large one leaves room for others. */
const CONCURRENT_CALLS = 8;
/** TEI takes bodies of 2 MB; a character may be three bytes. */
const MAX_SLICE_CHARACTERS = 600_000;
/** A token id and its comma. */
const CHARACTERS_PER_TOKEN_ID = 7;

const isImage = (input: EmbeddingInput): boolean => typeof input === 'object' && 'url' in input;

function charactersOf(input: EmbeddingInput): number {
  if (typeof input === 'string') return input.length;
  return 'url' in input ? input.url.length : input.length * CHARACTERS_PER_TOKEN_ID;
}

function estimateOf(input: EmbeddingInput): number {
  if (typeof input === 'string') return billedTokensAtLeast(input);
  return 'url' in input ? input.tokens : input.length;
}

function split<T extends EmbeddingInput>({ start, items }: InputSlice<T>, maxItems: number): InputSlice<T>[] {
  const slices: InputSlice<T>[] = [];
  let from = 0;
  let characters = 0;
  for (const [i, item] of items.entries()) {
    const size = charactersOf(item);
    const previous = items[i - 1];
    const isFull = i - from >= maxItems || characters + size > MAX_SLICE_CHARACTERS;
    // An image is sent alone, because vLLM takes one in a call.
    const isApart = isImage(item) || (previous !== undefined && isImage(previous));
    if (i > from && (isFull || isApart)) {
      slices.push({ start: start + from, items: items.slice(from, i) });
      from = i;
      characters = 0;
    }
    characters += size;
  }
  slices.push({ start: start + from, items: items.slice(from) });
  return slices;
}

/** For an upstream that refused the slice as too large. */
export function halve<T extends EmbeddingInput>(slice: InputSlice<T>, maxItems: number): InputSlice<T>[] {
  return split(slice, Math.min(maxItems, Math.ceil(slice.items.length / 2)));
}

/** TEI's message contains its limit. Other 413s may be due to just these inputs, so they teach nothing. */
function learnInputLimit({ learned }: Upstream, { detail }: UpstreamFailure): void {
  const limit = Number(/maximum allowed batch size (\d+)/.exec(detail)?.[1]);
  if (limit > 0) learned.maxInputsPerCall = Math.min(learned.maxInputsPerCall, limit);
}

/**
 * Splits the inputs into slices that every upstream takes and runs a few at a time. `run` returns smaller slices if one was
 * still too large. The first failure stops the others.
 */
export async function runSplit<T extends EmbeddingInput>(
  items: readonly T[],
  maxInputsPerCall: number,
  context: CallContext,
  run: (slice: InputSlice<T>, context: CallContext) => Promise<InputSlice<T>[]>,
): Promise<void> {
  if (items.length === 0) return;
  const whole = { start: 0, items };
  let queue = items.length === 1 ? [whole] : split(whole, maxInputsPerCall);
  const [only] = queue;
  // The usual case: one call, no second signal.
  if (only !== undefined && queue.length === 1) queue = await run(only, context);
  if (queue.length === 0) return;
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  const work = async (): Promise<void> => {
    for (let slice = queue.shift(); slice !== undefined; slice = queue.shift())
      queue.unshift(...(await run(slice, partOf(context, slice.items.length / items.length, signal))));
  };
  try {
    await Promise.all(Array.from({ length: Math.min(CONCURRENT_CALLS, queue.length) }, work));
  } catch (error) {
    stop.abort();
    throw error;
  }
}

interface SliceCall<T extends EmbeddingInput, R> {
  slice: InputSlice<T>;
  call: UpstreamCall;
  send: () => Promise<R>;
  /** Upstreams say that some input is too long, but not which one. Undefined: smaller calls are to show it, or to cut it. */
  findTooLong: ((failure: UpstreamFailure) => Promise<Error | undefined>) | undefined;
}

export const isTooLong = (error: unknown): error is UpstreamFailure =>
  error instanceof UpstreamFailure && error.apiError.code === 'context_length_exceeded';

/** What one call has given, as the upstream says. */
interface Sent {
  truncated: number | undefined;
  tokens: number | undefined;
}

interface CutCall<R extends Sent> {
  call: UpstreamCall;
  cut: Cut;
  /** The most tokens of an input that are read. */
  limit: number;
  /** How many inputs there are, and how many of them may be cut. */
  items: number;
  longItems: number;
  send(extra?: object): Promise<R>;
  /** How many have more tokens than are read. Undefined: the upstream cannot tell. */
  count(): Promise<number | undefined>;
}

/** Sends inputs of which some may have to be cut, in a way that tells how many were. */
export async function sendCut<R extends Sent>(options: CutCall<R>): Promise<R> {
  const { call, cut, limit, items, longItems, send, count } = options;
  const { dialect } = call.upstream;
  const fields = dialect.truncationFields(cut);
  if (dialect.countsTruncated) return await send(fields);
  const { truncation, maxDocumentTokens } = cut;
  if (truncation?.maxTokens !== undefined || maxDocumentTokens !== undefined) {
    if (fields === undefined) throw cannotCut(cut);
    const sent = await send(fields);
    // One that was cut has as many tokens as the limit.
    return { ...sent, truncated: (sent.tokens ?? limit) < limit ? 0 : ((await count()) ?? longItems) };
  }
  // Most often all fit. An upstream that cannot cut refuses those that do not.
  try {
    return await send();
  } catch (error) {
    if (fields === undefined || !isTooLong(error)) throw error;
    const truncated = items === 1 ? 1 : ((await count()) ?? 0);
    if (truncated === 0) throw error;
    return { ...(await send(fields)), truncated };
  }
}

/** Whether inputs that are too long for the upstream are cut, and not refused. */
export const cutsTooLong = ({ dialect }: Upstream, cut: Cut): boolean =>
  cut.truncation !== undefined && dialect.truncationFields(cut) !== undefined;

const cannotCut = ({ truncation, maxDocumentTokens }: Cut): ApiError =>
  errors.unsupportedParameter(
    maxDocumentTokens === undefined ? ['truncation', 'maxTokens'] : ['maxDocumentTokens'],
    'The server that runs this model cannot cut inputs ' +
      (truncation?.side === 'start'
        ? 'at their start.'
        : 'to a number of tokens. It may be able to cut them to its context.'),
  );

/** Sends a slice in one call. Returns undefined if its inputs are to be sent in smaller calls. */
export async function callWithSlice<T extends EmbeddingInput, R>(options: SliceCall<T, R>): Promise<R | undefined> {
  const { slice, call, send, findTooLong } = options;
  try {
    return await send();
  } catch (error) {
    if (!(error instanceof UpstreamFailure) || slice.items.length === 1) throw error;
    if (error.kind === 'too-many') {
      learnInputLimit(call.upstream, error);
      return undefined;
    }
    if (!isTooLong(error)) throw error;
    if (findTooLong === undefined) return undefined;
    const named = withPositionInRequest(error.apiError, slice.start) ?? (await findTooLong(error));
    if (named !== undefined) throw named;
    return undefined;
  }
}

/** Another Baobab names the input by its position in our call. */
function withPositionInRequest(apiError: ApiError, start: number): ApiError | undefined {
  if (typeof apiError.field !== 'object' || typeof apiError.field[1] !== 'number') return undefined;
  return apiError.mapFields(([name = '', index = 0]) => [name, start + Number(index)]);
}

/** The tokens that a call reports, as far as they are possible. `surely`: no more than this need not be looked at closely. */
export function possibleTokens(
  reported: number | undefined,
  call: UpstreamCall,
  { surely, most }: { surely: number; most: () => number },
): number | undefined {
  if (reported === undefined || reported <= surely) return reported;
  const limit = most();
  if (reported <= limit) return reported;
  call.overcounted();
  return limit;
}

/** No upstream reads more tokens of these. `limit`: the context, or where inputs are cut. */
export const mostTokensOf = (items: readonly EmbeddingInput[], limit: number): number =>
  items.reduce<number>((sum, item) => {
    if (typeof item === 'string') return sum + mostInputTokens(mostTokens(item), limit);
    return sum + ('url' in item ? MAX_IMAGE_TOKENS : mostInputTokens(item.length, limit));
  }, 0);

/** Upstreams report only the sum of tokens. It is divided by length, and the shares add up to it exactly. */
export function divideTokens<T extends EmbeddingInput>(
  total: number | undefined,
  { start, items }: InputSlice<T>,
  { tokens, limit }: { tokens: number[]; limit: number },
): void {
  if (total === undefined) {
    for (const [i, item] of items.entries()) tokens[start + i] = Math.min(estimateOf(item), limit);
    return;
  }
  const whole = items.reduce((sum, item) => sum + charactersOf(item), 0) || 1;
  let seen = 0;
  let given = 0;
  for (const [i, item] of items.entries()) {
    seen += charactersOf(item);
    const upTo = i === items.length - 1 ? total : Math.round((total * seen) / whole);
    tokens[start + i] = upTo - given;
    given = upTo;
  }
}
