import { isUtf8 } from 'node:buffer';
import { MAX_LINE_BYTES, type RawLine } from '@baobab/core/domain/batch.ts';

const NEWLINE = 10;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
const WHITE_SPACE = new Set(Buffer.from(' \t\r\v\f'));

const isBlank = (line: Buffer): boolean => line.every((byte) => WHITE_SPACE.has(byte));

export interface ReadLine extends RawLine {
  /** Where the next line begins in the source. */
  end: number;
}

/**
 * Reads the lines of a JSONL stream one at a time, without blank ones. A line that is too long has a problem instead of bytes. The
 * stream may begin with a later line than the first.
 */
export async function* readLines(source: AsyncIterable<Uint8Array>, firstLine = 1): AsyncGenerator<ReadLine> {
  let number = firstLine - 1;
  let parts: Uint8Array[] = [];
  let bytes = 0;
  let position = 0;
  let end = 0;

  function keep(part: Uint8Array): void {
    bytes += part.length;
    if (bytes > MAX_LINE_BYTES) parts = [];
    else parts.push(part);
  }

  function take(): ReadLine | undefined {
    number += 1;
    const [line, size] = [Buffer.concat(parts), bytes];
    parts = [];
    bytes = 0;
    if (size > MAX_LINE_BYTES) {
      return { number, end, bytes: undefined, problem: `This line is longer than ${MAX_LINE_BYTES} bytes.` };
    }
    if (!isUtf8(line)) return { number, end, bytes: undefined, problem: 'This line is not valid UTF-8.' };
    const hasMark = line.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
    const text = hasMark ? line.subarray(BYTE_ORDER_MARK.length) : line;
    return isBlank(text) ? undefined : { number, end, bytes: text };
  }

  for await (const chunk of source) {
    let start = 0;
    for (let newline = chunk.indexOf(NEWLINE); newline !== -1; newline = chunk.indexOf(NEWLINE, start)) {
      keep(chunk.subarray(start, newline));
      start = newline + 1;
      end = position + start;
      const line = take();
      if (line !== undefined) yield line;
    }
    // A copy, so that the rest of a line does not keep the memory of its whole chunk.
    if (start < chunk.length) keep(Buffer.from(chunk.subarray(start)));
    position += chunk.length;
  }
  if (bytes > 0) {
    end = position;
    const line = take();
    if (line !== undefined) yield line;
  }
}
