import { errors } from '../errors/errors.ts';

/** Far more than any real request has; what walks a value by recursion would run out of stack on much more. */
const MAX_NESTING = 128;

function isNestedDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  const children = Array.isArray(value) ? value : Object.values(value);
  // By index: an iterator takes several times as long over millions of token ids.
  for (let index = 0; index < children.length; index += 1) {
    if (typeof children[index] === 'object' && isNestedDeeper(children[index], levels - 1)) return true;
  }
  return false;
}

/** The value of a request body; throws what the client should see. */
export function parseJsonBody(text: string): unknown {
  if (text === '') throw errors.invalidJson('it is empty');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw errors.invalidJson((error as Error).message.slice(0, 200));
  }
  if (isNestedDeeper(value, MAX_NESTING)) throw errors.invalidJson(`it is nested deeper than ${MAX_NESTING} levels`);
  return value;
}
