/** Collects the ids of one text. Reused, since growing an array for every text costs more than reading the text. */
export interface IdBuffer {
  push(id: number): void;
  count(): number;
  /** Keeps the first `count` ids. */
  truncate(count: number): void;
  /** A copy of the ids. */
  take(): Int32Array;
}

const SMALL = 1024;
/** A buffer that one huge text made larger than this is not kept. */
const LARGE = 1 << 18;

export function createIdBuffer(): IdBuffer {
  let ids = new Int32Array(SMALL);
  let used = 0;
  return {
    push(id) {
      if (used === ids.length) {
        const larger = new Int32Array(used * 2);
        larger.set(ids);
        ids = larger;
      }
      ids[used++] = id;
    },
    count: () => used,
    truncate(count) {
      used = count;
    },
    take() {
      const taken = ids.slice(0, used);
      if (ids.length > LARGE) ids = new Int32Array(SMALL);
      return taken;
    },
  };
}
