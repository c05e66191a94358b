const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const SPACE = 32;
const COLON = 58;

/** Far above any chunk of a chat answer; a peer that never ends a line must not fill the memory. */
const MAX_EVENT_BYTES = 4 * 1024 * 1024;

export interface SseParser {
  /** The data of every event that this piece completes. */
  push(chunk: Uint8Array): string[];
  /** The data of an event that the end of the stream cut off before its empty line. */
  end(): string[];
}

/**
 * Works on bytes and decodes whole lines only, so a UTF-8 character split between two pieces never breaks. In the usual case (one
 * piece holds one event) nothing is copied.
 */
export function createSseParser(): SseParser {
  let rest: Buffer | undefined;
  let data: string | undefined;

  const readLine = (bytes: Buffer, start: number, end: number, out: string[]): void => {
    if (start === end) {
      if (data !== undefined) out.push(data);
      data = undefined;
      return;
    }
    if (bytes[start] === COLON) return;
    const value = fieldValue(bytes, start, end, 'data');
    if (value !== undefined) {
      data = data === undefined ? value : `${data}\n${value}`;
      return;
    }
    // llama-server before mid-2025 reports a failure in a field of its own instead of in `data`.
    const failure = fieldValue(bytes, start, end, 'error');
    if (failure !== undefined) data = `{"error":${failure}}`;
  };

  return {
    push(chunk) {
      const out: string[] = [];
      const piece = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      const bytes = rest === undefined ? piece : Buffer.concat([rest, piece]);
      let start = 0;
      // Only the new piece can hold a line feed: what was kept had none.
      let feed = bytes.indexOf(LINE_FEED, rest === undefined ? 0 : rest.length);
      while (feed !== -1) {
        readLine(bytes, start, feed > start && bytes[feed - 1] === CARRIAGE_RETURN ? feed - 1 : feed, out);
        start = feed + 1;
        feed = bytes.indexOf(LINE_FEED, start);
      }
      rest = start < bytes.length ? bytes.subarray(start) : undefined;
      if ((rest?.length ?? 0) + (data?.length ?? 0) > MAX_EVENT_BYTES) {
        throw new Error(`an event is longer than ${MAX_EVENT_BYTES} bytes`);
      }
      return out;
    },
    end() {
      const out: string[] = [];
      if (rest !== undefined) readLine(rest, 0, rest.length, out);
      rest = undefined;
      readLine(Buffer.alloc(0), 0, 0, out);
      return out;
    },
  };
}

function fieldValue(bytes: Buffer, start: number, end: number, name: string): string | undefined {
  const colon = start + name.length;
  if (colon >= end || bytes[colon] !== COLON) return undefined;
  for (let i = 0; i < name.length; i++) {
    if (bytes[start + i] !== name.charCodeAt(i)) return undefined;
  }
  return bytes.toString('utf8', bytes[colon + 1] === SPACE ? colon + 2 : colon + 1, end);
}
