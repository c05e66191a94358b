import { errors } from '@baobab/core/errors/errors.ts';
import { JsonContainers } from './json-containers.ts';
import {
  ALL_MARKS,
  CLOSE_ARRAY,
  COLON,
  COMMA,
  createJsonText,
  MARKS_WITHOUT_COMMA,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from './json-text.ts';

/** Values with a longer text than this are assembled from slices. */
const SLICE_BYTES = 65_536;
/**
 * Limits of what one step can take: objects grow by being copied; names, numbers and white space cannot be cut. A body that is small
 * enough to be parsed at once never reaches them.
 */
const MAX_MEMBERS = 65_536;
const MAX_NAMES = 131_072;
const MAX_UNCUT_BYTES = 262_144;
/** A string may be cut this far behind a limit. */
const CUT_SLACK_BYTES = 8;

/** What the parser asks its caller for: more of the text, or a pause. */
export type JsonStep = 'more' | 'pause';
type Steps<T = void> = Generator<JsonStep, T, readonly Buffer[] | undefined>;

class SliceParser {
  readonly #sliceBytes: number;
  readonly #maxNames: number;
  readonly #text = createJsonText();
  readonly #containers = new JsonContainers(this.#text);
  #at = 0;
  #lastMark = 0;
  #pausedAt = 0;
  #names = 0;
  #isAfterColon = false;
  #isComplete = false;

  constructor(sliceBytes: number, maxNames: number) {
    this.#sliceBytes = sliceBytes;
    this.#maxNames = maxNames;
  }

  *run(): Steps<unknown> {
    const text = this.#text;
    for (;;) {
      if (this.#at >= text.end()) {
        if (this.#isComplete) break;
        yield* this.#more();
        continue;
      }
      const byte = this.#nextMark();
      if (byte === QUOTE) yield* this.#string();
      else if (byte !== undefined) this.#take(byte);
      if (byte !== undefined) {
        this.#isAfterColon = byte === COLON;
        this.#lastMark = this.#at;
      }
      if (this.#at - this.#pausedAt >= this.#sliceBytes) {
        this.#pausedAt = this.#at;
        yield 'pause';
      }
    }
    this.#checkUncut();
    this.#containers.finish(this.#at);
    const { root } = this.#containers;
    if (root !== undefined) return root.value;
    // No mark at all: a number or a word.
    return text.parse(1, this.#at - 1, text.at(0) ?? 0, text.at(this.#at - 1) ?? 0);
  }

  *#more(): Steps {
    const chunks = yield 'more';
    if (chunks === undefined) {
      this.#isComplete = true;
      return;
    }
    const keep = Math.max(0, Math.min(this.#containers.neededFrom, this.#at) - 1);
    this.#text.append(chunks, keep);
    this.#containers.shift(keep);
    this.#at -= keep;
    this.#lastMark -= keep;
    this.#pausedAt -= keep;
  }

  /** Moves to the next byte that matters and returns it; undefined where the text or the slice ends first. */
  #nextMark(): number | undefined {
    const text = this.#text;
    const { top } = this.#containers;
    // In an array, commas mean nothing until it is time for a cut.
    const cutAt = top.isArray && !top.isAfterValue ? top.from + this.#sliceBytes : this.#at;
    const isBeforeCut = this.#at < cutAt;
    const limit = Math.min(text.end(), this.#pausedAt + this.#sliceBytes, isBeforeCut ? cutAt : text.end());
    this.#at = text.nextMark(this.#at, limit, isBeforeCut ? MARKS_WITHOUT_COMMA : ALL_MARKS);
    if (this.#at >= limit) return undefined;
    this.#checkUncut();
    const byte = text.at(this.#at);
    const isBeginning = byte === QUOTE || byte === OPEN_ARRAY || byte === OPEN_OBJECT;
    if (isBeginning && top.isAfterValue) throw text.unexpected(this.#at);
    return byte;
  }

  #take(byte: number): void {
    if (byte === COMMA) this.#comma();
    else if (byte === COLON) this.#colon();
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) this.#containers.open(byte === OPEN_ARRAY, this.#at);
    else this.#containers.close(byte === CLOSE_ARRAY, this.#at, this.#sliceBytes);
    this.#at += 1;
  }

  #checkUncut(): void {
    if (this.#at - this.#lastMark > MAX_UNCUT_BYTES) {
      throw errors.invalidJson(`a number or white space in it is longer than ${MAX_UNCUT_BYTES} bytes`);
    }
    this.#lastMark = this.#at;
  }

  #comma(): void {
    const containers = this.#containers;
    const { top } = containers;
    if (containers.isOutside) throw this.#text.unexpected(this.#at);
    if (top.isAfterValue) {
      containers.expectNothing(top, this.#at);
      top.isAfterValue = false;
      top.from = this.#at + 1;
    } else if (this.#at - top.from >= this.#sliceBytes) {
      containers.separate();
      containers.addMembers(top, this.#at);
      top.from = this.#at + 1;
    }
  }

  #colon(): void {
    const { top, isOutside } = this.#containers;
    if (isOutside) throw this.#text.unexpected(this.#at);
    this.#names += 1;
    top.names += 1;
    if (this.#names > this.#maxNames) throw errors.invalidJson(`it has more than ${this.#maxNames} names`);
    if (top.names > MAX_MEMBERS) throw errors.invalidJson(`an object in it has more than ${MAX_MEMBERS} members`);
  }

  *#string(): Steps {
    const text = this.#text;
    const { top, isOutside } = this.#containers;
    const isName = !top.isArray && !this.#isAfterColon;
    for (;;) {
      const limit = this.#at + 1 + (isName ? MAX_UNCUT_BYTES : this.#sliceBytes);
      const stop = text.endOfString(this.#at + 1, Math.min(limit, text.end()));
      if (stop < limit && stop < text.end() && !isOutside) {
        if (isName) top.nameAt = this.#at;
        this.#at = stop + 1;
        return;
      }
      if (stop >= limit || this.#isComplete || isOutside) break;
      yield* this.#more();
    }
    if (isName) throw errors.invalidJson(`a name in it is longer than ${MAX_UNCUT_BYTES} bytes, or has no end`);
    yield* this.#longString();
  }

  /** A string that is too long for one step. V8 joins its pieces when it is read. */
  *#longString(): Steps {
    const text = this.#text;
    const offset = text.offsetOf(this.#at);
    const add = this.#containers.beginValue(this.#at);
    const { top } = this.#containers;
    let whole = '';
    this.#at += 1;
    for (;;) {
      const limit = this.#at + this.#sliceBytes;
      const stop = text.endOfString(this.#at, Math.min(limit, text.end()));
      if (stop < limit ? stop >= text.end() : text.end() < limit + CUT_SLACK_BYTES) {
        if (this.#isComplete && stop >= text.end()) {
          throw errors.invalidJson(`Unterminated string in JSON at byte ${offset}`);
        }
        if (!this.#isComplete) {
          yield* this.#more();
          continue;
        }
      }
      whole += text.parse(this.#at, stop, QUOTE, QUOTE);
      this.#at = stop;
      top.from = this.#at;
      if (stop < limit) break;
      yield 'pause';
    }
    this.#at += 1;
    top.from = this.#at;
    add(whole);
  }
}

/**
 * JSON.parse for a large body, in steps and while it arrives. The caller answers 'more' with chunks, or with undefined when there are
 * no more. A scan of the bytes finds where strings, arrays and objects can be cut. Each slice goes through JSON.parse, which alone
 * decides what is valid, so the scan has to be right for valid texts only: of any other text, JSON.parse refuses some slice.
 */
export const parseSlices = (sliceBytes = SLICE_BYTES, maxNames = MAX_NAMES): Steps<unknown> =>
  new SliceParser(sliceBytes, maxNames).run();
