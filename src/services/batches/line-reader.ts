import { MAX_LINE_BYTES, type RawLine } from '../../domain/batch-line.ts';

const NEWLINE = 10;

/** Reads the lines of a JSONL stream one at a time, without blank ones. A line that is too long has a problem instead of text. */
export async function* readLines(source: AsyncIterable<Uint8Array>): AsyncGenerator<RawLine> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
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
    const [line, size] = [parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts), bytes];
    parts = [];
    bytes = 0;
    if (size > MAX_LINE_BYTES) {
      return { number, text: undefined, problem: `This line is longer than ${MAX_LINE_BYTES} bytes.` };
    }
    try {
      const text = decoder.decode(line);
      return text.trim() === '' ? undefined : { number, text };
    } catch {
      return { number, text: undefined, problem: 'This line is not valid UTF-8.' };
    }
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
