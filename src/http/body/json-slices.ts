import { errors } from '../../errors/errors.ts';
import {
  ALL_MARKS,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  createJsonText,
  MARKS_WITHOUT_COMMA,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from './json-text.ts';

/** Far more than any real request has; what walks a value by recursion would run out of stack on much more. */
export const MAX_NESTING = 128;
export const tooDeep = () => errors.invalidJson(`it is nested deeper than ${MAX_NESTING} levels`);

/** What has a longer text than this is put together from slices. */
const SLICE_BYTES = 65_536;
/**
 * Bounds of what one step can take: arrays and objects grow by being copied; names, numbers and white space cannot be cut. A body that is
 * small enough to be parsed at once never reaches them.
 */
const MAX_ITEMS = 1_048_576;
const MAX_MEMBERS = 65_536;
const MAX_NAMES = 131_072;
const MAX_UNCUT_BYTES = 262_144;

type Container = unknown[] | Record<string, unknown>;

/** With the length of its text. */
const large = new WeakMap<object, number>();

/** Whether a part of a body was put together from slices, so that to walk through it takes as many. All else is short work. */
export const isLarge = (value: unknown): value is Container =>
  typeof value === 'object' && value !== null && large.has(value);

/** How long the text of a part of a body was, where it was long. */
export const largeBytes = (value: unknown): number => (isLarge(value) ? (large.get(value) ?? 0) : 0);

function emptyArray(): unknown[] {
  // Of the general kind from the start: an array of numbers that comes to hold something else is copied whole.
  const items: unknown[] = [''];
  items.pop();
  return items;
}

function setMember(target: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== '__proto__') target[name] = value;
  else Object.defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true });
}

/** An array or object that has begun and not ended. */
interface Open {
  isArray: boolean;
  start: number;
  /** Where the text begins that is not in `value` yet. */
  from: number;
  /** Undefined: all of it may still be parsed together with what it stands in. Else it has its place there already. */
  value: Container | undefined;
  /** Its last member has a value of its own: a comma or the end must follow. */
  isAfterValue: boolean;
  /** Where the last string began that is no value; in an object, a name. */
  nameAt: number;
  names: number;
}

/** What the parser asks for: more of the text, or only a moment for others. */
export type JsonStep = 'more' | 'pause';

/** A string may be cut so much behind a limit. */
const CUT_SLACK_BYTES = 8;

/**
 * JSON.parse for a large body, in steps and while it arrives; `undefined` after the last chunks means that there are no more. A scan of
 * the bytes finds where strings, arrays and objects can be cut. Each slice goes through JSON.parse, which alone says what is valid, so
 * the scan has to be right for valid texts only: of any other it leaves some slice that is refused.
 */
export function* parseSlices(sliceBytes = SLICE_BYTES): Generator<JsonStep, unknown, readonly Buffer[] | undefined> {
  const text = createJsonText();
  const begin = (isArray: boolean, start: number): Open => ({
    isArray,
    start,
    from: start + 1,
    value: undefined,
    isAfterValue: false,
    nameAt: -1,
    names: 0,
  });
  /** What the body stands in. */
  const outside = begin(true, -1);
  /** From the outermost to the innermost but one. */
  const stack: Open[] = [];
  let top = outside;
  let root: { value: unknown } | undefined;
  let at = 0;
  let lastMark = 0;
  let pausedAt = 0;
  let names = 0;
  let isAfterColon = false;
  let isComplete = false;

  function* more(): Generator<JsonStep, void, readonly Buffer[] | undefined> {
    const chunks = yield 'more';
    if (chunks === undefined) {
      isComplete = true;
      return;
    }
    const parsed = [top, ...stack.toReversed()].find(({ value }) => value !== undefined) ?? outside;
    const keep = Math.max(0, Math.min(parsed.from, at) - 1);
    text.append(chunks, keep);
    for (const open of [top, ...stack]) {
      open.start -= keep;
      open.from -= keep;
      open.nameAt -= keep;
    }
    at -= keep;
    lastMark -= keep;
    pausedAt -= keep;
  }

  /** Members without a comma at their end: one at least, since a comma or nothing came before them. */
  function addMembers(open: Open, stop: number): void {
    if (Array.isArray(open.value)) {
      const items = text.parse(open.from, stop, OPEN_ARRAY, CLOSE_ARRAY) as unknown[];
      if (items.length === 0) throw text.unexpected(text.afterSpace(open.from));
      for (let index = 0; index < items.length; index += 1) open.value.push(items[index]);
      if (open.value.length > MAX_ITEMS) throw errors.invalidJson(`an array in it has more than ${MAX_ITEMS} items`);
    } else if (open.value !== undefined) {
      const members = text.parse(open.from, stop, OPEN_OBJECT, CLOSE_OBJECT) as Record<string, unknown>;
      const found = Object.keys(members);
      if (found.length === 0) throw text.unexpected(text.afterSpace(open.from));
      for (const name of found) setMember(open.value, name, members[name]);
    }
  }

  /** Parses all that stands before a value of its own, and gives its name. */
  function place(open: Open, start: number): string {
    let name = '';
    let stop = start;
    if (!open.isArray) {
      const colon = text.beforeSpace(start) - 1;
      const quote = text.beforeSpace(colon) - 1;
      stop = open.nameAt;
      if (text.at(colon) !== COLON || text.at(quote) !== QUOTE || stop < open.from) throw text.unexpected(start);
      name = text.parse(stop + 1, quote, QUOTE, QUOTE) as string;
    }
    const last = text.beforeSpace(stop);
    if (last > open.from) {
      if (open === outside || text.at(last - 1) !== COMMA) throw text.unexpected(text.afterSpace(open.from));
      addMembers(open, last - 1);
    }
    open.from = start;
    open.isAfterValue = true;
    return name;
  }

  function put(open: Open, name: string, value: unknown): void {
    if (open === outside) root = { value };
    else if (Array.isArray(open.value)) open.value.push(value);
    else if (open.value !== undefined) setMember(open.value, name, value);
  }

  /** Gives all that is open a value of its own. */
  function separate(): void {
    if (top.value !== undefined) return;
    let around = outside;
    for (const open of [...stack, top]) {
      if (open === outside) continue;
      if (open.value === undefined) {
        const name = place(around, open.start);
        open.value = open.isArray ? emptyArray() : {};
        large.set(open.value, 0);
        put(around, name, open.value);
      }
      around = open;
    }
  }

  function expectNothing(open: Open, stop: number): void {
    const next = text.afterSpace(open.from);
    if (next < stop) throw text.unexpected(next);
  }

  function mark(): void {
    if (at - lastMark > MAX_UNCUT_BYTES) {
      throw errors.invalidJson(`a number or white space in it is longer than ${MAX_UNCUT_BYTES} bytes`);
    }
    lastMark = at;
  }

  function open(isArray: boolean): void {
    if (stack.length === MAX_NESTING) throw tooDeep();
    stack.push(top);
    top = begin(isArray, at);
    at += 1;
  }

  function close(isArray: boolean): void {
    const closed = top;
    const around = stack.pop();
    if (around === undefined || closed.isArray !== isArray) throw text.unexpected(at);
    top = around;
    at += 1;
    if (closed.value !== undefined) {
      if (closed.isAfterValue) expectNothing(closed, at - 1);
      else addMembers(closed, at - 1);
    } else {
      if (at - closed.start < sliceBytes && around !== outside) return;
      separate();
      const [opening, closing] = isArray ? [OPEN_ARRAY, CLOSE_ARRAY] : [OPEN_OBJECT, CLOSE_OBJECT];
      const value = text.parse(closed.start + 1, at - 1, opening, closing) as Container;
      closed.value = value;
      put(around, place(around, closed.start), value);
    }
    large.set(closed.value, at - closed.start);
    around.from = at;
  }

  function comma(): void {
    if (top === outside) throw text.unexpected(at);
    if (top.isAfterValue) {
      expectNothing(top, at);
      top.isAfterValue = false;
      top.from = at + 1;
    } else if (at - top.from >= sliceBytes) {
      separate();
      addMembers(top, at);
      top.from = at + 1;
    }
    at += 1;
  }

  function colon(): void {
    if (top === outside) throw text.unexpected(at);
    at += 1;
    names += 1;
    top.names += 1;
    if (names > MAX_NAMES) throw errors.invalidJson(`it has more than ${MAX_NAMES} names`);
    if (top.names > MAX_MEMBERS) throw errors.invalidJson(`an object in it has more than ${MAX_MEMBERS} members`);
  }

  /** A string that is too long for one step. V8 joins its pieces when somebody reads it. */
  function* longString(): Generator<JsonStep, void, readonly Buffer[] | undefined> {
    const offset = text.offsetOf(at);
    separate();
    const name = place(top, at);
    let whole = '';
    at += 1;
    for (;;) {
      const limit = at + sliceBytes;
      const stop = text.endOfString(at, Math.min(limit, text.end()));
      if (stop < limit ? stop >= text.end() : text.end() < limit + CUT_SLACK_BYTES) {
        if (isComplete && stop >= text.end()) throw errors.invalidJson(`Unterminated string in JSON at byte ${offset}`);
        if (!isComplete) {
          yield* more();
          continue;
        }
      }
      whole += text.parse(at, stop, QUOTE, QUOTE);
      at = stop;
      top.from = at;
      if (stop < limit) break;
      yield 'pause';
    }
    at += 1;
    top.from = at;
    put(top, name, whole);
  }

  function* string(): Generator<JsonStep, void, readonly Buffer[] | undefined> {
    const isName = !top.isArray && !isAfterColon;
    for (;;) {
      const limit = at + 1 + (isName ? MAX_UNCUT_BYTES : sliceBytes);
      const stop = text.endOfString(at + 1, Math.min(limit, text.end()));
      if (stop < limit && stop < text.end() && top !== outside) {
        if (isName) top.nameAt = at;
        at = stop + 1;
        return;
      }
      if (stop >= limit || isComplete || top === outside) break;
      yield* more();
    }
    if (isName) throw errors.invalidJson(`a name in it is longer than ${MAX_UNCUT_BYTES} bytes, or has no end`);
    yield* longString();
  }

  for (;;) {
    if (at >= text.end()) {
      if (isComplete) break;
      yield* more();
      continue;
    }
    // In an array, commas mean nothing until it is time for a cut.
    const cutAt = top.isArray && !top.isAfterValue ? top.from + sliceBytes : at;
    const limit = Math.min(text.end(), pausedAt + sliceBytes, at < cutAt ? cutAt : text.end());
    at = text.nextMark(at, limit, at < cutAt ? MARKS_WITHOUT_COMMA : ALL_MARKS);
    if (at < limit) {
      mark();
      const byte = text.at(at);
      const isBeginning = byte === QUOTE || byte === OPEN_ARRAY || byte === OPEN_OBJECT;
      if (isBeginning && top.isAfterValue) throw text.unexpected(at);
      if (byte === QUOTE) yield* string();
      else if (byte === COMMA) comma();
      else if (byte === COLON) colon();
      else if (isBeginning) open(byte === OPEN_ARRAY);
      else close(byte === CLOSE_ARRAY);
      isAfterColon = byte === COLON;
      lastMark = at;
    }
    if (at - pausedAt >= sliceBytes) {
      pausedAt = at;
      yield 'pause';
    }
  }
  mark();
  if (stack.length > 0 || at === 0) throw text.unexpected(at);
  if (root !== undefined) {
    expectNothing(outside, at);
    return (root as { value: unknown }).value;
  }
  // No mark at all: a number or a word.
  return text.parse(1, at - 1, text.at(0) ?? 0, text.at(at - 1) ?? 0);
}
