import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './json-text.ts';
import { parseJsonBytes, parseSmallJson, SMALL_BYTES } from './json-value.ts';

const BACKSLASH = 92;
const SPACE = 32;
const ZERO = 48;
/** Longer names are not looked for. */
const MAX_NAME_BYTES = 64;

const isSpace = (byte: number): boolean => byte === 32 || byte === 10 || byte === 13 || byte === 9;

/** The next quote or escape, or the end of the chunk. */
function endOfText(chunk: Buffer, start: number): number {
  let at = start;
  while (at < chunk.length && chunk[at] !== QUOTE && chunk[at] !== BACKSLASH) at += 1;
  return at;
}

export interface JsonItemOptions {
  /** The name of the list in the body. */
  list: string;
  /** The member of each item whose place is reported. */
  member: string;
  maxItemBytes: number;
  maxItems: number;
}

export interface JsonItem {
  index: number;
  value: unknown;
  /** Its text. */
  bytes: Buffer;
  /** Where the value of the member is in it. Undefined if its name is written with escapes, or is not there. */
  member: { start: number; end: number } | undefined;
}

type CutItem = Pick<JsonItem, 'bytes' | 'member'>;

/**
 * Cuts the items of one list out of a JSON object that arrives in chunks. It finds where strings, arrays and objects begin and end and
 * leaves the rest to JSON.parse: the text of each item is parsed for itself, and so is the text around them, with a 0 for each item.
 */
class ItemCutter {
  readonly #options: JsonItemOptions;
  /** The text around the items, white space shortened. */
  readonly #around: number[] = [];
  #depth = 0;
  #isString = false;
  #isEscaped = false;
  /** The string is the name of a member of the body or of an item. */
  #isName = false;
  #name = '';
  #expectsName = false;
  #isInList = false;
  #items = 0;
  #parts: Buffer[] | undefined;
  #itemBytes = 0;
  #member: { start: number; end: number } | undefined;
  #memberStart: number | undefined;

  constructor(options: JsonItemOptions) {
    this.#options = options;
  }

  get items(): number {
    return this.#items;
  }

  /** Returns the items that end in this chunk. */
  take(chunk: Buffer): CutItem[] {
    const ended: CutItem[] = [];
    let from = 0;
    for (let at = 0; at < chunk.length; at += 1) {
      if (this.#isText()) at = endOfText(chunk, at);
      if (at === chunk.length) break;
      const byte = chunk[at] as number;
      const isPlain = this.#isString || isSpace(byte);
      if (this.#isInList && this.#depth === 2 && !isPlain) {
        if (byte === COMMA || byte === CLOSE_ARRAY) {
          if (this.#parts !== undefined) ended.push(this.#endItem(chunk.subarray(from, at)));
        } else if (this.#parts === undefined) {
          this.#beginItem();
          from = at;
        }
      }
      const isInItem = this.#parts !== undefined;
      this.#step(byte, isInItem ? this.#itemBytes + at - from : 0);
      if (!isInItem) this.#addAround(byte);
    }
    if (this.#parts !== undefined) this.#keep(chunk.subarray(from));
    return ended;
  }

  /** The body with a 0 for each item. */
  end(): unknown {
    if (this.#depth > 0 || this.#isString) throw errors.invalidJson('Unexpected end of JSON input');
    const text = Buffer.from(this.#around).toString('utf8').trim();
    try {
      return parseSmallJson(text);
    } catch (error) {
      if (text === '' || this.#items === 0) throw error;
      // A place in this text would mean nothing to the client.
      throw errors.invalidJson(`something outside of the items of '${this.#options.list}' is wrong`);
    }
  }

  /** Inside a string of an item that nothing has to be known about. */
  #isText(): boolean {
    return this.#isString && !this.#isEscaped && !this.#isName && this.#parts !== undefined;
  }

  #step(byte: number, place: number): void {
    if (this.#isString) {
      this.#stepInString(byte);
      return;
    }
    switch (byte) {
      case QUOTE:
        this.#isString = true;
        this.#isName = this.#expectsName && this.#hasKnownNames();
        this.#name = '';
        break;
      case OPEN_OBJECT:
      case OPEN_ARRAY:
        this.#isInList ||= byte === OPEN_ARRAY && this.#depth === 1 && this.#name === this.#options.list;
        this.#depth += 1;
        this.#expectsName = byte === OPEN_OBJECT;
        break;
      case CLOSE_OBJECT:
      case CLOSE_ARRAY:
        this.#endMember(place);
        this.#depth -= 1;
        if (this.#depth === 1) this.#isInList = false;
        this.#expectsName = false;
        break;
      case COMMA:
        this.#endMember(place);
        this.#expectsName = this.#hasKnownNames();
        break;
      case COLON:
        if (this.#isMemberOfItem() && this.#name === this.#options.member) this.#memberStart = place + 1;
        this.#expectsName = false;
        break;
    }
  }

  #stepInString(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === BACKSLASH) this.#isEscaped = true;
    else if (byte === QUOTE) {
      this.#isString = false;
      return;
    }
    if (this.#isName && this.#name.length < MAX_NAME_BYTES) this.#name += String.fromCharCode(byte);
  }

  #isMemberOfItem(): boolean {
    return this.#parts !== undefined && this.#depth === 3;
  }

  /** Members of the body, or of an item. */
  #hasKnownNames(): boolean {
    return this.#depth === 1 || this.#isMemberOfItem();
  }

  #endMember(place: number): void {
    if (this.#memberStart === undefined || !this.#isMemberOfItem()) return;
    this.#member = { start: this.#memberStart, end: place };
    this.#memberStart = undefined;
    this.#name = '';
  }

  #beginItem(): void {
    const { list, maxItems } = this.#options;
    if (this.#items === maxItems) {
      throw errors.validationFailed(list, `'${list}' has more than ${maxItems} items.`);
    }
    this.#items += 1;
    this.#parts = [];
    this.#itemBytes = 0;
    this.#member = undefined;
    this.#memberStart = undefined;
    this.#addAround(ZERO);
  }

  #keep(part: Buffer): void {
    const { list, maxItemBytes } = this.#options;
    this.#itemBytes += part.length;
    if (this.#itemBytes > maxItemBytes) {
      const name = `${list}[${this.#items - 1}]`;
      throw errors.invalidParameter(name, `'${name}' is longer than ${maxItemBytes} bytes.`);
    }
    this.#parts?.push(part);
  }

  #endItem(last: Buffer): CutItem {
    this.#keep(last);
    const bytes = Buffer.concat(this.#parts ?? []);
    this.#parts = undefined;
    return { bytes, member: this.#member };
  }

  #addAround(byte: number): void {
    const around = this.#around;
    const isWhiteSpace = !this.#isString && isSpace(byte);
    if (isWhiteSpace && around.at(-1) === SPACE) return;
    around.push(isWhiteSpace ? SPACE : byte);
    if (around.length > SMALL_BYTES) {
      throw errors.invalidJson(`it has more than ${SMALL_BYTES} bytes outside of the items of '${this.#options.list}'`);
    }
  }
}

async function parseItem({ bytes, member }: CutItem, index: number, list: string): Promise<JsonItem> {
  try {
    return { index, value: await parseJsonBytes(bytes), bytes, member };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new ApiError('invalid_json', error.message.replace('The request body', `'${list}[${index}]'`));
  }
}

/**
 * Reads the items of one list of a JSON body, one at a time while the body arrives. Only one item is in memory. Throws an error for the
 * client when the body is not such an object, at the latest after its last item.
 */
export async function* readJsonItems(
  source: AsyncIterable<Uint8Array>,
  options: JsonItemOptions,
): AsyncGenerator<JsonItem> {
  const { list } = options;
  const cutter = new ItemCutter(options);
  let index = 0;
  for await (const chunk of source) {
    for (const cut of cutter.take(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length))) {
      yield await parseItem(cut, index, list);
      index += 1;
    }
  }
  const body = cutter.end();
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw errors.invalidParameter(undefined, 'The request body must be a JSON object.');
  }
  const items = (body as Record<string, unknown>)[list];
  if (items === undefined) throw errors.missingParameter(list);
  const isWhole = Array.isArray(items) && items.length === cutter.items && items.every((item) => item === 0);
  if (!isWhole || items.length === 0) {
    throw errors.invalidParameter(list, `'${list}' must be a list with at least one item, given once.`);
  }
}
