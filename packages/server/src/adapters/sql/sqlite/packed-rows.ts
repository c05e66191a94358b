import type { PlainValue, RowGroup } from '../shared/database.ts';

const FIRST_BYTES = 32_768;
/** The most that UTF-8 takes for one unit of a string. */
const MOST_UNIT_BYTES = 3;
const [OPEN, COMMA, CLOSE] = [0x5b, 0x2c, 0x5d];

/**
 * Rows as the JSON that the database's thread reads, outside of V8's heap: V8 would copy the objects of rows that wait for some tenths of
 * a second twice, the second time into its old space.
 */
export class PackedRows implements RowGroup {
  readonly #insert: (json: Uint8Array<ArrayBuffer>) => Promise<void>;
  #bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #length = 0;
  #size = 0;

  constructor(insert: (json: Uint8Array<ArrayBuffer>) => Promise<void>) {
    this.#insert = insert;
  }

  get size(): number {
    return this.#size;
  }

  add(values: readonly PlainValue[]): void {
    const text = JSON.stringify(values);
    // With room for a comma before it and the bracket after the last one.
    this.#makeRoom(text.length * MOST_UNIT_BYTES + 2);
    this.#bytes[this.#length] = this.#size === 0 ? OPEN : COMMA;
    this.#length += 1 + this.#bytes.write(text, this.#length + 1);
    this.#size += 1;
  }

  async insert(): Promise<void> {
    if (this.#size === 0) return;
    this.#bytes[this.#length] = CLOSE;
    await this.#insert(this.#bytes.subarray(0, this.#length + 1));
  }

  #makeRoom(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#bytes.length));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}
