import { isUtf8 } from 'node:buffer';
import { MAX_LINE_BYTES, type RawLine } from '../../domain/batch-line.ts';

const NEWLINE = 10;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
const WHITE_SPACE = new Set(Buffer.from(' \t\r\v\f'));

const isBlank = (line: Buffer): boolean => line.every((byte) => WHITE_SPACE.has(byte));

/** Reads the lines of a JSONL stream one at a time, without blank ones. A line that is too long has a problem instead of bytes. */
export async function* readLines(source: AsyncIterable<Uint8Array>): AsyncGenerator<RawLine> {
  let number = 0;
  let parts: Uint8Array[] = [];
  let bytes = 0;

  function keep(part: Uint8Array): void {
    bytes += part.length;
    if (bytes > MAX_LINE_BYTES) parts = [];
    else parts.push(part);
  }

  function take(): RawLine | undefined {
    number += 1;
    const [line, size] = [Buffer.concat(parts), bytes];
    parts = [];
    bytes = 0;
    if (size > MAX_LINE_BYTES) {
      return { number, bytes: undefined, problem: `This line is longer than ${MAX_LINE_BYTES} bytes.` };
    }
    if (!isUtf8(line)) return { number, bytes: undefined, problem: 'This line is not valid UTF-8.' };
    const hasMark = line.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
    const text = hasMark ? line.subarray(BYTE_ORDER_MARK.length) : line;
    return isBlank(text) ? undefined : { number, bytes: text };
  }

  for await (const chunk of source) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      keep(chunk.subarray(start, end));
      start = end + 1;
      const line = take();
      if (line !== undefined) yield line;
    }
    // A copy, so that the rest of a line does not keep the memory of its whole chunk.
    if (start < chunk.length) keep(Buffer.from(chunk.subarray(start)));
  }
  if (bytes > 0) {
    const line = take();
    if (line !== undefined) yield line;
  }
}
