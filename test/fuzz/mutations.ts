/** A generator of random numbers from 0 to 1 that gives the same ones for the same seed (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const MAX_STEPS = 8;
const MAX_PIECE = 512;
/** Lengths and counts that parsers trip over. */
const ODD_NUMBERS = [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff];

/** A few random changes of a file; `other` is a file of the same kind, of which it may get pieces. */
export function mutated(file: Buffer, other: Buffer, random: () => number): Buffer {
  const below = (limit: number) => Math.floor(random() * limit);
  const pieceOf = (bytes: Buffer) => {
    const at = below(bytes.length);
    return bytes.subarray(at, at + 1 + below(MAX_PIECE));
  };
  // Headers are short and come first, so half of the changes are made there.
  const placeIn = (bytes: Buffer) => below(random() < 0.5 ? Math.min(bytes.length, MAX_PIECE) : bytes.length);
  const splice = (bytes: Buffer, at: number, removed: number, added: Buffer) =>
    Buffer.concat([bytes.subarray(0, at), added, bytes.subarray(at + removed)]);

  const steps: ((bytes: Buffer) => Buffer)[] = [
    (bytes) => {
      const at = placeIn(bytes);
      return splice(bytes, at, 1, Buffer.from([(bytes[at] ?? 0) ^ (1 << below(8))]));
    },
    (bytes) => {
      const number = Buffer.alloc(4);
      const odd = ODD_NUMBERS[below(ODD_NUMBERS.length)] ?? 0;
      if (random() < 0.5) number.writeUInt32BE(odd);
      else number.writeUInt32LE(odd);
      return splice(bytes, placeIn(bytes), 4, number);
    },
    (bytes) => splice(bytes, placeIn(bytes), 1 + below(MAX_PIECE), Buffer.alloc(0)),
    (bytes) => splice(bytes, placeIn(bytes), 0, pieceOf(bytes)),
    (bytes) => splice(bytes, placeIn(bytes), below(MAX_PIECE), pieceOf(other)),
    (bytes) => splice(bytes, placeIn(bytes), MAX_PIECE, Buffer.from(Array.from({ length: 16 }, () => below(256)))),
    (bytes) => bytes.subarray(0, below(bytes.length)),
  ];
  let result = file;
  for (let left = random() < 0.5 ? 1 : 1 + below(MAX_STEPS); left > 0 && result.length > 0; left--) {
    result = steps[below(steps.length)]?.(result) ?? result;
  }
  return result;
}
