import { errors } from '@baobab/core/errors/errors.ts';
import { CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, type JsonText, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './json-text.ts';
import { type Container, markLarge } from './large-parts.ts';

/** Far more than any real request has. Code that walks a value by recursion would run out of stack on much more. */
export const MAX_NESTING = 128;
export const tooDeep = () => errors.invalidJson(`it is nested deeper than ${MAX_NESTING} levels`);

/** An array grows by being copied, which takes one long step. */
const MAX_ITEMS = 1_048_576;

/** An array or object that has begun and not ended. */
export interface OpenContainer {
  isArray: boolean;
  /** Where its bracket is. */
  start: number;
  /** Where the text begins that is not in `value` yet. */
  from: number;
  /** Undefined: all of it can still be parsed together with its parent. Otherwise it is already in its parent. */
  value: Container | undefined;
  /** Its last member was added on its own: a comma or the end must follow. */
  isAfterValue: boolean;
  /** Where the last string began that is not a value; in an object, a name. */
  nameAt: number;
  names: number;
}

const openAt = (isArray: boolean, start: number): OpenContainer => ({
  isArray,
  start,
  from: start + 1,
  value: undefined,
  isAfterValue: false,
  nameAt: -1,
  names: 0,
});

function emptyArray(): unknown[] {
  // A general array from the start: V8 copies an array of numbers when something else is added.
  const items: unknown[] = [''];
  items.pop();
  return items;
}

function setMember(target: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== '__proto__') target[name] = value;
  else Object.defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true });
}

/** The arrays and objects that are open at a place in the text, and the values assembled so far. */
export class JsonContainers {
  readonly #text: JsonText;
  /** Holds the body itself. */
  readonly #outside = openAt(true, -1);
  /** From the outermost to the parent of `top`. */
  readonly #stack: OpenContainer[] = [];
  top = this.#outside;
  root: { value: unknown } | undefined;

  constructor(text: JsonText) {
    this.#text = text;
  }

  get isOutside(): boolean {
    return this.top === this.#outside;
  }

  /** The first place whose text is still needed. */
  get neededFrom(): number {
    for (let index = this.#stack.length; index >= 0; index -= 1) {
      const open = index === this.#stack.length ? this.top : this.#stack[index];
      if (open?.value !== undefined) return open.from;
    }
    return this.#outside.from;
  }

  /** The text has lost this many bytes at its start. */
  shift(bytes: number): void {
    for (const open of [this.top, ...this.#stack]) {
      open.start -= bytes;
      open.from -= bytes;
      open.nameAt -= bytes;
    }
  }

  open(isArray: boolean, at: number): void {
    if (this.#stack.length === MAX_NESTING) throw tooDeep();
    this.#stack.push(this.top);
    this.top = openAt(isArray, at);
  }

  /** `at` is the place of the closing bracket. Small containers are left to be parsed with their parent. */
  close(isArray: boolean, at: number, sliceBytes: number): void {
    const closed = this.top;
    const parent = this.#stack.pop();
    if (parent === undefined || closed.isArray !== isArray) throw this.#text.unexpected(at);
    this.top = parent;
    const end = at + 1;
    if (closed.value !== undefined) {
      if (closed.isAfterValue) this.expectNothing(closed, at);
      else this.addMembers(closed, at);
    } else {
      if (end - closed.start < sliceBytes && parent !== this.#outside) return;
      this.separate();
      const [opening, closing] = isArray ? [OPEN_ARRAY, CLOSE_ARRAY] : [OPEN_OBJECT, CLOSE_OBJECT];
      const value = this.#text.parse(closed.start + 1, at, opening, closing) as Container;
      closed.value = value;
      this.#put(parent, this.#place(parent, closed.start), value);
    }
    markLarge(closed.value, end - closed.start);
    parent.from = end;
  }

  /** Throws unless everything was closed. */
  finish(at: number): void {
    if (this.#stack.length > 0 || at === 0) throw this.#text.unexpected(at);
    if (this.root !== undefined) this.expectNothing(this.#outside, at);
  }

  /** Adds everything before a value that starts here to the innermost container. Returns a function that adds the value. */
  beginValue(start: number): (value: unknown) => void {
    this.separate();
    const { top } = this;
    const name = this.#place(top, start);
    return (value) => this.#put(top, name, value);
  }

  /** Gives every open container a value of its own. */
  separate(): void {
    if (this.top.value !== undefined) return;
    let parent = this.#outside;
    for (const open of [...this.#stack, this.top]) {
      if (open === this.#outside) continue;
      if (open.value === undefined) {
        const name = this.#place(parent, open.start);
        open.value = open.isArray ? emptyArray() : {};
        markLarge(open.value, 0);
        this.#put(parent, name, open.value);
      }
      parent = open;
    }
  }

  /** Parses the members up to here, without a comma at their end: at least one, because a comma or nothing precedes them. */
  addMembers(open: OpenContainer, stop: number): void {
    const text = this.#text;
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

  expectNothing(open: OpenContainer, stop: number): void {
    const next = this.#text.afterSpace(open.from);
    if (next < stop) throw this.#text.unexpected(next);
  }

  /** Parses everything before a value that starts here, and returns the name of that value. */
  #place(open: OpenContainer, start: number): string {
    const text = this.#text;
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
      if (open === this.#outside || text.at(last - 1) !== COMMA) throw text.unexpected(text.afterSpace(open.from));
      this.addMembers(open, last - 1);
    }
    open.from = start;
    open.isAfterValue = true;
    return name;
  }

  #put(open: OpenContainer, name: string, value: unknown): void {
    if (open === this.#outside) this.root = { value };
    else if (Array.isArray(open.value)) open.value.push(value);
    else if (open.value !== undefined) setMember(open.value, name, value);
  }
}
