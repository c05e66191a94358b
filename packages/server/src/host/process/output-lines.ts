import type { Readable } from 'node:stream';

const MAX_LINE_CHARS = 2_000;
/** A failing native library can print without end. */
const MAX_LINES_PER_SECOND = 50;

/** Reads a stream line by line within bounds, so that a noisy process can fill neither memory nor the log. */
export function forEachLine(stream: Readable, onLine: (line: string) => void): void {
  let rest = '';
  let windowStart = 0;
  let lines = 0;

  function emit(line: string): void {
    if (line.trim() === '') return;
    const now = performance.now();
    if (now - windowStart > 1_000) {
      windowStart = now;
      lines = 0;
    }
    lines += 1;
    if (lines <= MAX_LINES_PER_SECOND) onLine(line.slice(0, MAX_LINE_CHARS));
  }

  stream.setEncoding('utf8');
  stream.on('data', (chunk: string) => {
    const pieces = (rest + chunk).split('\n');
    rest = (pieces.pop() ?? '').slice(0, MAX_LINE_CHARS);
    pieces.forEach(emit);
  });
  stream.on('end', () => emit(rest));
  stream.on('error', () => {});
}
