import { errors } from '@baobab/core/errors/errors.ts';
import { createTimeSlice } from '@baobab/core/runtime/time-slices.ts';
import { MAX_NESTING, tooDeep } from './json-containers.ts';
import { parseSlices } from './json-slices.ts';
import { parseJson } from './parse-json.ts';

/** Texts up to this length are parsed at once. */
export const SMALL_BYTES = 262_144;
/** The parser gets this much at a time. */
export const STEP_BYTES = 131_072;

function isNestedDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  const children = Array.isArray(value) ? value : Object.values(value);
  // By index: an iterator is several times slower on long lists of token ids.
  for (let index = 0; index < children.length; index += 1) {
    if (typeof children[index] === 'object' && isNestedDeeper(children[index], levels - 1)) return true;
  }
  return false;
}

/** Throws an error for the client if the text is not valid JSON. */
export function parseSmallJson(text: string): unknown {
  if (text === '') throw errors.invalidJson('it is empty');
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (error) {
    throw errors.invalidJson((error as Error).message.slice(0, 200));
  }
  if (isNestedDeeper(value, MAX_NESTING)) throw tooDeep();
  return value;
}

/** Parses JSON that is in memory with the limits and errors of a body, without blocking the event loop for long. */
export async function parseJsonBytes(bytes: Buffer, { maxNames }: { maxNames?: number } = {}): Promise<unknown> {
  if (bytes.length <= SMALL_BYTES) return parseSmallJson(bytes.toString('utf8'));
  const slice = createTimeSlice({ background: true });
  const steps = parseSlices(undefined, maxNames);
  let chunks: readonly Buffer[] | undefined;
  let readTo = 0;
  for (;;) {
    const step = steps.next(chunks);
    if (step.done) return step.value;
    if (step.value === 'more') {
      chunks = readTo < bytes.length ? [bytes.subarray(readTo, readTo + STEP_BYTES)] : undefined;
      readTo += STEP_BYTES;
    }
    if (slice.isOver()) await slice.next();
  }
}
