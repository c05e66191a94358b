import { createHash, hash } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PREFIX = 'bao_sk_';
const RANDOM_LENGTH = 34;
const CHECKSUM_LENGTH = 6;
const SHAPE = /^bao_sk_[0-9A-Za-z]{40}$/;

export const hashSecret = (secret: string): string => hash('sha256', secret);

function base62(bytes: Uint8Array, length: number): string {
  let value = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let text = '';
  for (let index = 0; index < length; index += 1) {
    text = ALPHABET[Number(value % 62n)] + text;
    value /= 62n;
  }
  return text;
}

const checksum = (body: string): string =>
  base62(createHash('sha256').update(`baobab:${body}`).digest().subarray(0, 8), CHECKSUM_LENGTH);

/** 34 random base62 characters (202 bits) and a checksum of 6. */
export function createSecret(randomBytes: (size: number) => Uint8Array): string {
  // 32 bytes reduced to 34 base62 digits: the bias of the leading digit is far below one part in 2^50.
  const body = base62(randomBytes(32), RANDOM_LENGTH);
  return `${PREFIX}${body}${checksum(body)}`;
}

/** Whether this service could have issued the key. Finds typing errors without a lookup. */
export function isPlausibleSecret(secret: string): boolean {
  if (secret.startsWith(PREFIX)) {
    if (!SHAPE.test(secret)) return false;
    const body = secret.slice(PREFIX.length, PREFIX.length + RANDOM_LENGTH);
    return checksum(body) === secret.slice(-CHECKSUM_LENGTH);
  }
  return /^[\x21-\x7e]{16,200}$/.test(secret);
}

/** Enough to recognise a key. Keys that operators chose may be short, so less of them is shown. */
export const displayPrefix = (secret: string): string =>
  secret.startsWith(PREFIX) ? secret.slice(0, PREFIX.length + 4) : secret.slice(0, 4);
