import { hash } from 'node:crypto';
import type { Cell } from './tables.ts';

const MODULUS = 2n ** 128n;

export interface TableDigest {
  rows: number;
  /** Sum of the hashes of all rows: the same in whatever order they are read. */
  sum: bigint;
}

const cellText = (cell: Cell): string => {
  if (cell === null) return 'n';
  return typeof cell === 'string' ? `${cell.length}:${cell}` : `b${hash('sha256', cell)}`;
};

function rowHash(cells: readonly Cell[]): bigint {
  const bytes = hash('sha256', cells.map(cellText).join(), 'buffer');
  return (bytes.readBigUInt64BE(0) << 64n) | bytes.readBigUInt64BE(8);
}

export interface DigestBuilder {
  add(cells: readonly Cell[]): void;
  readonly digest: TableDigest;
}

export function createDigest(): DigestBuilder {
  let [rows, sum] = [0, 0n];
  return {
    add(cells) {
      rows += 1;
      sum = (sum + rowHash(cells)) % MODULUS;
    },
    get digest() {
      return { rows, sum };
    },
  };
}
