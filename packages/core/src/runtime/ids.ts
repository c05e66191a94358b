import { createHash, randomFillSync } from 'node:crypto';

const ALPHABET = '0123456789abcdefghijklmnopqrstuvwxyz';
const RANDOM_CHARACTERS = 15;

/** Random characters for many ids, drawn at once: a call for each id is measurable at thousands of requests a second. */
const pool = Buffer.alloc(RANDOM_CHARACTERS * 256);
let used = pool.length;
/** Many ids share a millisecond, so its text is kept. */
let lastMs = -1;
let lastTime = '';

/** `key_`, `file_`, `batch_` … and 24 characters: milliseconds first, so that ids sort by time, then 77 random bits. */
export function createId(prefix: string, nowMs: number = Date.now()): string {
  if (used === pool.length) {
    randomFillSync(pool);
    for (let at = 0; at < pool.length; at += 1) pool[at] = ALPHABET.charCodeAt((pool[at] as number) % ALPHABET.length);
    used = 0;
  }
  if (nowMs !== lastMs) {
    lastMs = nowMs;
    lastTime = nowMs.toString(36).padStart(9, '0');
  }
  used += RANDOM_CHARACTERS;
  return `${prefix}_${lastTime}${pool.toString('latin1', used - RANDOM_CHARACTERS, used)}`;
}

const SEQUENCE_CHARACTERS = 4;
const SEQUENCE_LENGTH = ALPHABET.length ** SEQUENCE_CHARACTERS;
let sequence = 0;
let sequenceMs = -1;

/** Like `createId`, but ids that this process makes within a millisecond also sort in the order in which they were made. */
export function createOrderedId(prefix: string, nowMs: number): string {
  if (nowMs !== sequenceMs) {
    sequenceMs = nowMs;
    sequence = 0;
  }
  const place = (sequence++ % SEQUENCE_LENGTH).toString(36).padStart(SEQUENCE_CHARACTERS, '0');
  const id = createId(prefix, nowMs);
  return id.slice(0, -RANDOM_CHARACTERS) + place + id.slice(SEQUENCE_CHARACTERS - RANDOM_CHARACTERS);
}

/** Like `createId`, but always the same for the same time and text. */
export function deriveId(prefix: string, timeMs: number, text: string): string {
  const bytes = createHash('sha256').update(text).digest().subarray(0, RANDOM_CHARACTERS);
  const characters = Array.from(bytes, (byte) => ALPHABET[byte % ALPHABET.length]).join('');
  return `${prefix}_${timeMs.toString(36).padStart(9, '0')}${characters}`;
}
