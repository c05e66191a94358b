import { randomFillSync } from 'node:crypto';

const ALPHABET = '0123456789abcdefghijklmnopqrstuvwxyz';
const RANDOM_CHARACTERS = 15;

/** Asking the operating system once for many ids: at thousands of requests a second each ask would show. */
const pool = Buffer.alloc(RANDOM_CHARACTERS * 256);
let used = pool.length;
/** Many ids are made in the same millisecond. */
let lastMs = -1;
let lastTime = '';

/** `key_`, `file_`, `batch_` … and 24 characters: milliseconds first, so that ids sort by time, then 77 random bits. */
export function createId(prefix: string, nowMs: number = Date.now()): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  if (nowMs !== lastMs) {
    lastMs = nowMs;
    lastTime = nowMs.toString(36).padStart(9, '0');
  }
  let id = `${prefix}_${lastTime}`;
  for (const end = used + RANDOM_CHARACTERS; used < end; used += 1) id += ALPHABET[(pool[used] as number) % 36];
  return id;
}
