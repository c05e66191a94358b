import type { AnswerHead } from './answer-head.ts';

/** Collects the body of an answer. */
export interface AnswerText {
  readonly maxBytes: number;
  /** Copies the bytes. Returns false if the body is now too long. */
  add(bytes: Buffer): boolean;
  whole(): string;
}

export function createAnswerText({ framing }: AnswerHead, maxBytes: number): AnswerText {
  let text = '';
  let length = 0;
  let whole: Buffer | undefined;
  const parts: Buffer[] = [];

  return {
    maxBytes,
    add(bytes) {
      const start = length;
      length += bytes.length;
      if (length > maxBytes || (framing.kind === 'length' && framing.bytes > maxBytes)) return false;
      if (framing.kind !== 'length') parts.push(Buffer.from(bytes));
      // The body nearly always arrives at once: then no copy is needed.
      else if (bytes.length === framing.bytes) text = bytes.toString('utf8');
      else {
        whole ??= Buffer.allocUnsafe(framing.bytes);
        bytes.copy(whole, start);
      }
      return true;
    },
    whole() {
      if (parts.length > 0) return Buffer.concat(parts, length).toString('utf8');
      return whole === undefined ? text : whole.toString('utf8');
    },
  };
}
