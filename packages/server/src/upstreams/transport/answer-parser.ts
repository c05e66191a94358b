import { type AnswerHead, MalformedAnswer, parseHead } from './answer-head.ts';

export interface AnswerSink {
  onHead(head: AnswerHead): void;
  /** The bytes from `from` to `to`, until it returns: a stream has some for each token, and a view of them would cost more than to read them. */
  onBody(bytes: Buffer, from: number, to: number): void;
  onEnd(): void;
}

const HEAD_END = '\r\n\r\n';
const LINE_END = '\r\n';
const MAX_HEAD_BYTES = 65_536;
const MAX_LINE_BYTES = 4_096;
const CHUNK_SIZE = /^([0-9a-f]{1,12})[ \t]*(?:;.*)?$/i;

type State = 'idle' | 'head' | 'length' | 'close' | 'chunk-size' | 'chunk' | 'chunk-end' | 'trailer';

const NO_BYTES = Buffer.alloc(0);
const CR = 13;
const LF = 10;
/** Longer ones, with extensions or of many digits, are rare. */
const MOST_PLAIN_DIGITS = 6;

/** The value of a hexadecimal digit. -1: it is none. */
function digitOf(byte: number | undefined): number {
  if (byte === undefined) return -1;
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}

/**
 * Parses the answers on one connection, one after the other. Engines mostly send the same head, so `parse` may be a cache. A class: every
 * connection has one, and with a closure for every step it would be several times as large.
 */
export class AnswerParser {
  readonly #sink: AnswerSink;
  readonly #parse: (text: string) => AnswerHead;
  #state: State = 'idle';
  /** The start of a head or line whose end has not arrived yet. */
  #held = '';
  /** Bytes left of the body or of the current chunk. */
  #missingBytes = 0;
  #bytes: Buffer = NO_BYTES;
  #at = 0;
  /** What comes after it in the buffer is not of this read. */
  #end = 0;

  constructor(sink: AnswerSink, parse: (text: string) => AnswerHead = parseHead) {
    this.#sink = sink;
    this.#parse = parse;
  }

  /** Returns true if there are bytes that belong to no answer. After a `MalformedAnswer` the parser cannot be used. */
  push(bytes: Buffer, end = bytes.length): boolean {
    this.#bytes = bytes;
    this.#at = 0;
    this.#end = end;
    while (this.#at < end && this.#state !== 'idle') this.#step(this.#state);
    this.#bytes = NO_BYTES;
    return this.#at < end;
  }

  /** The other side has closed the connection, which ends some answers. */
  end(): void {
    if (this.#state === 'close') this.#finish();
  }

  /** A request was sent: the next bytes start its answer. */
  expect(): void {
    this.#state = 'head';
  }

  #step(state: Exclude<State, 'idle'>): void {
    if (state === 'head') this.#readHead();
    else if (state === 'chunk-size') this.#readChunkSize();
    else if (state === 'chunk') this.#readBody('chunk-end');
    else if (state === 'chunk-end') this.#readChunkEnd();
    else if (state === 'length') this.#readBody('end');
    else if (state === 'trailer') this.#readTrailer();
    else {
      const from = this.#at;
      this.#at = this.#end;
      this.#sink.onBody(this.#bytes, from, this.#end);
    }
  }

  /** Returns the text before the mark and skips the mark. Undefined if the mark has not arrived yet. */
  #take(mark: string, maxBytes: number): string | undefined {
    const bytes = this.#bytes;
    if (this.#held === '') {
      const end = bytes.indexOf(mark, this.#at, 'latin1');
      if (end !== -1 && end + mark.length <= this.#end) {
        const text = bytes.toString('latin1', this.#at, end);
        this.#at = end + mark.length;
        return text;
      }
    }
    const before = this.#held.length;
    // latin1 has one character for each byte, so lengths agree.
    const held = this.#held + bytes.toString('latin1', this.#at, this.#end);
    const end = held.indexOf(mark, Math.max(0, before - mark.length));
    if (end === -1 ? held.length > maxBytes : end > maxBytes)
      throw new MalformedAnswer('the head of an answer is too long');
    if (end === -1) {
      this.#held = held;
      this.#at = this.#end;
      return undefined;
    }
    this.#at += end + mark.length - before;
    this.#held = '';
    return held.slice(0, end);
  }

  #readHead(): void {
    const text = this.#take(HEAD_END, MAX_HEAD_BYTES);
    if (text === undefined) return;
    const head = this.#parse(text);
    // For example 100 Continue: the real answer follows.
    if (head.status < 200) return;
    this.#sink.onHead(head);
    this.#beginBody(head);
  }

  #beginBody({ framing }: AnswerHead): void {
    if (framing.kind === 'length') {
      this.#missingBytes = framing.bytes;
      this.#state = 'length';
      if (framing.bytes === 0) this.#finish();
    } else this.#state = framing.kind === 'chunked' ? 'chunk-size' : 'close';
  }

  #readBody(next: 'end' | 'chunk-end'): void {
    const from = this.#at;
    const end = Math.min(this.#end, from + this.#missingBytes);
    this.#missingBytes -= end - from;
    this.#sink.onBody(this.#bytes, from, end);
    this.#at = end;
    if (this.#missingBytes > 0) return;
    if (next === 'end') this.#finish();
    else this.#state = next;
  }

  /** A stream has a chunk for each token: its size is read without making a string where the whole line is there. */
  #plainChunkSize(): number | undefined {
    if (this.#held !== '') return undefined;
    const bytes = this.#bytes;
    const from = this.#at;
    let at = from;
    let size = 0;
    for (let digit = digitOf(bytes[at]); digit !== -1 && at < this.#end; digit = digitOf(bytes[at])) {
      size = size * 16 + digit;
      at += 1;
    }
    if (at === from || at - from > MOST_PLAIN_DIGITS || !this.#isLineEnd(at)) return undefined;
    this.#at = at + LINE_END.length;
    return size;
  }

  #isLineEnd(at: number): boolean {
    return at + 1 < this.#end && this.#bytes[at] === CR && this.#bytes[at + 1] === LF;
  }

  #readChunkSize(): void {
    const size = this.#plainChunkSize() ?? this.#anyChunkSize();
    if (size === undefined) return;
    this.#missingBytes = size;
    this.#state = size === 0 ? 'trailer' : 'chunk';
  }

  /** Undefined: the end of the line has not arrived yet. */
  #anyChunkSize(): number | undefined {
    const line = this.#take(LINE_END, MAX_LINE_BYTES);
    if (line === undefined) return undefined;
    const [, size] = CHUNK_SIZE.exec(line) ?? [];
    if (size === undefined) throw new MalformedAnswer('a chunk of an answer has no size');
    return Number.parseInt(size, 16);
  }

  #readChunkEnd(): void {
    if (this.#held === '' && this.#isLineEnd(this.#at)) {
      this.#at += LINE_END.length;
      this.#state = 'chunk-size';
      return;
    }
    const line = this.#take(LINE_END, MAX_LINE_BYTES);
    if (line === undefined) return;
    if (line !== '') throw new MalformedAnswer('a chunk of an answer is longer than its size');
    this.#state = 'chunk-size';
  }

  #readTrailer(): void {
    if (this.#take(LINE_END, MAX_LINE_BYTES) === '') this.#finish();
  }

  #finish(): void {
    this.#state = 'idle';
    this.#sink.onEnd();
  }
}
