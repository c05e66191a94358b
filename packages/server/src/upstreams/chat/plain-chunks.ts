/** Tokens that a chunk tells. */
export interface Counts {
  prompt: number | undefined;
  completion: number | undefined;
  cached: number | undefined;
  /** Some upstreams keep the thoughts to themselves. */
  hasHiddenThoughts: boolean;
}

export const NO_COUNTS: Counts = {
  prompt: undefined,
  completion: undefined,
  cached: undefined,
  hasHiddenThoughts: false,
};

/** What a chunk says. */
export interface ChunkFacts {
  /** Undefined if it says more than a text and counts. */
  text: string | undefined;
  counts: Counts;
}

const QUOTE = 34;
const BACKSLASH = 92;
const SPACE = 32;
const SIMPLE_ESCAPES = '"\\/bfnrt';
const UNICODE_ESCAPE = /u[0-9a-fA-F]{4}/y;
const JSON_NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** Where values begin that may differ: the text, what OpenAI fills chunks up with, and numbers. */
const VALUES = /"(?<ofText>content|text|obfuscation)":\s*(?=")|"(?<ofNumber>\w+)":\s*(?=[-\d])/g;
/** Counts that a chunk must repeat. */
const FIXED = new Set([
  'prompt_tokens',
  'cached_tokens',
  'cache_read_tokens',
  'reasoning_tokens',
  'prompt_n',
  'cache_n',
]);
const COUNTS = new Set(['completion_tokens', 'predicted_n']);

/** Put into a chunk instead of its values, to see what they change. */
const OTHER_TEXT = 'an other text';
const OTHER_COUNT = 7_654_321;

/** A stream whose chunks have no common form is not looked at for ever. */
const MOST_FORMS = 8;

type Value = 'text' | 'string' | 'count' | 'number';
const OTHER_VALUES: Partial<Record<Value, string>> = { text: `"${OTHER_TEXT}"`, string: '""', number: '1' };

/**
 * Knows the chunks of a stream that differ in their text and in numbers only: nearly all. One of them is read as JSON. Where the bytes around
 * those values are the same in another one, it says the same, and is not parsed.
 */
export class PlainChunks {
  /** Of the last chunk that was found: its text, as JSON, and what it counts. */
  json = '';
  counts: Counts = NO_COUNTS;
  /** What stands before, between and after the values. None: no form is known. */
  #pieces: readonly string[] = [];
  #values: readonly Value[] = [];
  #forms = 0;

  /** Whether a chunk has the form that is known. */
  find(payload: string): boolean {
    let at = 0;
    for (let index = 0; index < this.#pieces.length; index += 1) {
      const piece = this.#pieces[index] as string;
      // With a pattern that is no constant, this is several times as fast as startsWith.
      if (payload.indexOf(piece, at) !== at) return false;
      at += piece.length;
      const value = this.#values[index];
      if (value === undefined) return at === payload.length;
      const end = valueEnd(value, payload, at);
      if (end === -1) return false;
      if (value === 'text') this.json = payload.slice(at, end);
      else if (value === 'count') this.counts.completion = Number(payload.slice(at, end));
      at = end;
    }
    return false;
  }

  /** Remembers the form of a chunk that was read, if it is plain. */
  learn(payload: string, { text, counts }: ChunkFacts, read: (payload: string) => ChunkFacts): void {
    if (!text || this.#forms === MOST_FORMS) return;
    this.#forms += 1;
    // Other numbers are looked at only where they differ.
    const { pieces, values } = cut(payload, text, this.#forms > 1);
    const others = values.map((value, index) => OTHER_VALUES[value] ?? `${OTHER_COUNT + index}`);
    const other = read(pieces.map((piece, index) => piece + (others[index] ?? '')).join(''));
    const isPlain =
      other.text === OTHER_TEXT &&
      other.counts.prompt === counts.prompt &&
      other.counts.cached === counts.cached &&
      other.counts.hasHiddenThoughts === counts.hasHiddenThoughts;
    // Where several values are called counts, it tells which one is.
    const counted = values.findIndex(
      (value, index) => value === 'count' && others[index] === `${other.counts.completion}`,
    );
    if (!isPlain || (counted === -1 && other.counts.completion !== counts.completion)) return;
    this.counts = { ...counts };
    this.#values = values.map((value, index) => (value === 'count' && index !== counted ? 'number' : value));
    this.#pieces = pieces;
  }
}

/** Cuts out the values. */
function cut(payload: string, text: string, withNumbers: boolean): { pieces: string[]; values: Value[] } {
  const pieces: string[] = [];
  const values: Value[] = [];
  let from = 0;
  for (const { index, 0: key, groups = {} } of payload.matchAll(VALUES)) {
    const at = index + key.length;
    const value = kindOf(groups);
    const end = value === undefined || index < from ? -1 : valueEnd(value, payload, at);
    if (value === undefined || end === -1 || (value === 'number' && !withNumbers)) continue;
    if (value === 'text' && (values.includes('text') || JSON.parse(payload.slice(at, end)) !== text)) continue;
    pieces.push(payload.slice(from, at));
    values.push(value);
    from = end;
  }
  return { pieces: [...pieces, payload.slice(from)], values };
}

/** Undefined: it may not differ. */
function kindOf({ ofText, ofNumber = '' }: Record<string, string | undefined>): Value | undefined {
  if (ofText !== undefined) return ofText === 'obfuscation' ? 'string' : 'text';
  if (FIXED.has(ofNumber)) return undefined;
  return COUNTS.has(ofNumber) ? 'count' : 'number';
}

const valueEnd = (value: Value, text: string, from: number): number =>
  value === 'text' || value === 'string' ? stringEnd(text, from) : numberEnd(text, from);

/** Where a JSON string that begins here ends. -1: it is empty, or no plain one. */
function stringEnd(text: string, from: number): number {
  if (text.charCodeAt(from) !== QUOTE || text.charCodeAt(from + 1) === QUOTE) return -1;
  for (let at = from + 1; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) return at + 1;
    if (unit < SPACE) return -1;
    if (unit !== BACKSLASH) continue;
    at += 1;
    if (SIMPLE_ESCAPES.includes(text.charAt(at))) continue;
    UNICODE_ESCAPE.lastIndex = at;
    if (!UNICODE_ESCAPE.test(text)) return -1;
    at += 4;
  }
  return -1;
}

function numberEnd(text: string, from: number): number {
  JSON_NUMBER.lastIndex = from;
  return JSON_NUMBER.test(text) ? JSON_NUMBER.lastIndex : -1;
}
