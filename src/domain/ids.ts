import { randomBytes } from 'node:crypto';

const ALPHABET = '0123456789abcdefghijklmnopqrstuvwxyz';

/** `key_`, `file_`, `batch_` … and 24 characters: milliseconds first, so that ids sort by time, then 80 random bits. */
export function createId(prefix: string, nowMs: number = Date.now()): string {
  const time = nowMs.toString(36).padStart(9, '0');
  let random = '';
  for (const byte of randomBytes(15)) random += ALPHABET[byte % 36];
  return `${prefix}_${time}${random}`;
}
