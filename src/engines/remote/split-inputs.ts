import type { CallContext } from '../engine.ts';
import type { UpstreamFailure } from './failure.ts';
import type { RemoteScope } from './remote-scope.ts';
import type { Upstream } from './routing/upstream.ts';
import { estimateTokens } from './token-count.ts';

/** A run of a request's inputs that travels in one call. */
export interface Piece<T> {
  start: number;
  items: readonly T[];
}

type Sized = string | readonly number[];

/** Calls of one request at a time, so that a large one leaves room for others. */
const CONCURRENT_CALLS = 8;
/** TEI takes bodies of 2 MB; a character may be three bytes. */
const MAX_PIECE_CHARACTERS = 600_000;
/** A token id and its comma. */
const CHARACTERS_PER_TOKEN_ID = 7;

const charactersOf = (item: Sized): number =>
  typeof item === 'string' ? item.length : item.length * CHARACTERS_PER_TOKEN_ID;

function cut<T extends Sized>({ start, items }: Piece<T>, maxItems: number): Piece<T>[] {
  const pieces: Piece<T>[] = [];
  let from = 0;
  let characters = 0;
  for (const [i, item] of items.entries()) {
    const size = charactersOf(item);
    if (i > from && (i - from >= maxItems || characters + size > MAX_PIECE_CHARACTERS)) {
      pieces.push({ start: start + from, items: items.slice(from, i) });
      from = i;
      characters = 0;
    }
    characters += size;
  }
  pieces.push({ start: start + from, items: items.slice(from) });
  return pieces;
}

/** For an address that refused the piece as too large. */
export function halve<T extends Sized>(piece: Piece<T>, maxItems: number): Piece<T>[] {
  return cut(piece, Math.min(maxItems, Math.ceil(piece.items.length / 2)));
}

/** TEI says its limit outright. Other 413s may be due to just these inputs, so nothing is learnt from them. */
export function learnInputLimit({ learned }: Upstream, { detail }: UpstreamFailure): void {
  const told = Number(/maximum allowed batch size (\d+)/.exec(detail)?.[1]);
  if (told > 0) learned.maxInputsPerCall = Math.min(learned.maxInputsPerCall, told);
}

/**
 * Cuts the inputs into pieces that every address takes and runs a few at a time. `run` gives back smaller pieces when one was
 * still too large. The first failure stops the others.
 */
export async function inPieces<T extends Sized>(
  remote: RemoteScope,
  items: readonly T[],
  context: CallContext,
  run: (piece: Piece<T>, context: CallContext) => Promise<Piece<T>[]>,
): Promise<void> {
  if (items.length === 0) return;
  const whole = { start: 0, items };
  let queue = items.length === 1 ? [whole] : cut(whole, remote.inputsPerCall());
  const [only] = queue;
  // The usual case: one call, no second signal.
  if (only !== undefined && queue.length === 1) queue = await run(only, context);
  if (queue.length === 0) return;
  const stop = new AbortController();
  const shared: CallContext = { ...context, signal: AbortSignal.any([context.signal, stop.signal]) };
  const work = async (): Promise<void> => {
    for (let piece = queue.shift(); piece !== undefined; piece = queue.shift())
      queue.unshift(...(await run(piece, shared)));
  };
  try {
    await Promise.all(Array.from({ length: Math.min(CONCURRENT_CALLS, queue.length) }, work));
  } catch (error) {
    stop.abort();
    throw error;
  }
}

/** An upstream tells only the sum; it is shared out by length, and the shares add up to it exactly. */
export function shareTokens<T extends Sized>(
  total: number | undefined,
  { start, items }: Piece<T>,
  tokens: number[],
): void {
  if (total === undefined) {
    for (const [i, item] of items.entries())
      tokens[start + i] = typeof item === 'string' ? estimateTokens(item) : item.length;
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
