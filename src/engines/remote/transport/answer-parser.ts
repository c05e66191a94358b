import { type AnswerHead, MalformedAnswer, parseHead } from './answer-head.ts';

export interface AnswerSink {
  onHead(head: AnswerHead): void;
  /** The bytes are valid only until it returns. */
  onBody(bytes: Buffer): void;
  onEnd(): void;
}

/** Parses the answers on one connection, one after the other. */
export interface AnswerParser {
  /** Returns true if there are bytes that belong to no answer. After a `MalformedAnswer` the parser cannot be used. */
  push(bytes: Buffer): boolean;
  /** The other side has closed the connection, which ends some answers. */
  end(): void;
  /** A request was sent: the next bytes start its answer. */
  expect(): void;
}

const HEAD_END = '\r\n\r\n';
const LINE_END = '\r\n';
const MAX_HEAD_BYTES = 65_536;
const MAX_LINE_BYTES = 4_096;
const CHUNK_SIZE = /^([0-9a-f]{1,12})[ \t]*(?:;.*)?$/i;

type State = 'idle' | 'head' | 'length' | 'close' | 'chunk-size' | 'chunk' | 'chunk-end' | 'trailer';

/** Engines mostly send the same head, so `parse` may be a cache. */
export function createAnswerParser(sink: AnswerSink, parse: (text: string) => AnswerHead = parseHead): AnswerParser {
  let state: State = 'idle';
  /** The start of a head or line whose end has not arrived yet. */
  let held = '';
  /** Bytes left of the body or of the current chunk. */
  let missingBytes = 0;
  let bytes: Buffer = Buffer.alloc(0);
  let at = 0;

  /** Returns the text before the mark and skips the mark. Undefined if the mark has not arrived yet. */
  function take(mark: string, maxBytes: number): string | undefined {
    if (held === '') {
      const end = bytes.indexOf(mark, at, 'latin1');
      if (end !== -1) {
        const text = bytes.toString('latin1', at, end);
        at = end + mark.length;
        return text;
      }
    }
    const before = held.length;
    // latin1 has one character for each byte, so lengths agree.
    held += bytes.toString('latin1', at);
    const end = held.indexOf(mark, Math.max(0, before - mark.length));
    if (end === -1 ? held.length > maxBytes : end > maxBytes)
      throw new MalformedAnswer('the head of an answer is too long');
    if (end === -1) {
      at = bytes.length;
      return undefined;
    }
    const text = held.slice(0, end);
    at += end + mark.length - before;
    held = '';
    return text;
  }

  function beginBody({ framing }: AnswerHead): void {
    if (framing.kind === 'length') {
      missingBytes = framing.bytes;
      state = 'length';
      if (missingBytes === 0) finish();
    } else state = framing.kind === 'chunked' ? 'chunk-size' : 'close';
  }

  function readHead(): void {
    const text = take(HEAD_END, MAX_HEAD_BYTES);
    if (text === undefined) return;
    const head = parse(text);
    // For example 100 Continue: the real answer follows.
    if (head.status < 200) return;
    sink.onHead(head);
    beginBody(head);
  }

  function readBody(next: 'end' | 'chunk-end'): void {
    const end = Math.min(bytes.length, at + missingBytes);
    missingBytes -= end - at;
    sink.onBody(bytes.subarray(at, end));
    at = end;
    if (missingBytes > 0) return;
    if (next === 'end') finish();
    else state = next;
  }

  function readChunkSize(): void {
    const line = take(LINE_END, MAX_LINE_BYTES);
    if (line === undefined) return;
    const [, size] = CHUNK_SIZE.exec(line) ?? [];
    if (size === undefined) throw new MalformedAnswer('a chunk of an answer has no size');
    missingBytes = Number.parseInt(size, 16);
    state = missingBytes === 0 ? 'trailer' : 'chunk';
  }

  function readChunkEnd(): void {
    const line = take(LINE_END, MAX_LINE_BYTES);
    if (line === undefined) return;
    if (line !== '') throw new MalformedAnswer('a chunk of an answer is longer than its size');
    state = 'chunk-size';
  }

  function readTrailer(): void {
    if (take(LINE_END, MAX_LINE_BYTES) === '') finish();
  }

  function finish(): void {
    state = 'idle';
    sink.onEnd();
  }

  const steps: Record<Exclude<State, 'idle'>, () => void> = {
    head: readHead,
    length: () => readBody('end'),
    close() {
      sink.onBody(bytes.subarray(at));
      at = bytes.length;
    },
    'chunk-size': readChunkSize,
    chunk: () => readBody('chunk-end'),
    'chunk-end': readChunkEnd,
    trailer: readTrailer,
  };

  return {
    push(more) {
      bytes = more;
      at = 0;
      while (at < bytes.length && state !== 'idle') steps[state]();
      return at < bytes.length;
    },
    end() {
      if (state === 'close') finish();
    },
    expect() {
      state = 'head';
    },
  };
}
