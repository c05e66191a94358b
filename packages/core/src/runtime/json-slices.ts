import { runInTimeSlices } from './time-slices.ts';

/** Shorter texts are written at once. */
const PIECE_LENGTH = 65_536;
/** About what a number or a word takes. */
const OTHER_LENGTH = 8;

/** The room that is left after the JSON of a value, below zero if it does not fit. Looks at no more than fits. */
function roomAfter(value: unknown, room: number): number {
  if (typeof value === 'string') return room - value.length;
  if (typeof value !== 'object' || value === null) return room - OTHER_LENGTH;
  let left = room - OTHER_LENGTH;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && left >= 0; index += 1) left = roomAfter(value[index], left);
    return left;
  }
  for (const name in value) {
    left = roomAfter((value as Record<string, unknown>)[name], left - name.length);
    if (left < 0) break;
  }
  return left;
}

const isShort = (value: unknown): boolean => roomAfter(value, PIECE_LENGTH) >= 0;

const isFirstOfPair = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;

function* textPieces(text: string): Generator<string> {
  yield '"';
  for (let start = 0; start < text.length; ) {
    let end = Math.min(start + PIECE_LENGTH, text.length);
    if (end < text.length && isFirstOfPair(text.charCodeAt(end - 1))) end -= 1;
    yield JSON.stringify(text.slice(start, end)).slice(1, -1);
    start = end;
  }
  yield '"';
}

/** The JSON of plain data in pieces. */
function* pieces(value: unknown): Generator<string> {
  if (isShort(value)) yield JSON.stringify(value) ?? 'null';
  else if (typeof value === 'string') yield* textPieces(value);
  else if (Array.isArray(value)) {
    yield '[';
    for (let index = 0; index < value.length; index += 1) {
      if (index > 0) yield ',';
      yield* pieces(value[index]);
    }
    yield ']';
  } else {
    let before = '{';
    for (const [name, member] of Object.entries(value as object)) {
      if (member === undefined) continue;
      yield `${before}${JSON.stringify(name)}:`;
      yield* pieces(member);
      before = ',';
    }
    yield before === '{' ? '{}' : '}';
  }
}

function* joined(value: unknown): Generator<void, string> {
  const parts: string[] = [];
  for (const piece of pieces(value)) {
    parts.push(piece);
    yield;
  }
  return parts.join('');
}

/** `JSON.stringify` for plain data, without blocking the event loop for long. At once if the text is short. */
export const stringifyInSlices = (value: unknown): string | Promise<string> =>
  isShort(value) ? JSON.stringify(value) : runInTimeSlices(joined(value), { background: true });
