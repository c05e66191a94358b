import type { BatchSlice } from '@baobab/core/ports/batches.ts';
import type { ReadLine } from './line-reader.ts';

/** A small batch has small slices, so that several processes can share it. */
const MIN_LINES = 8;
/** A large batch has large slices, because each costs a claim and a read of the input. */
const MAX_SLICES = 256;

export interface InputCutter {
  /** Call it for each line of the input, in order. */
  add(line: Pick<ReadLine, 'number' | 'end'>): void;
  slices(): BatchSlice[];
}

const merged = (parts: readonly BatchSlice[]): BatchSlice => {
  const [first, last] = [parts[0] as BatchSlice, parts.at(-1) as BatchSlice];
  return { ...first, lastLine: last.lastLine, bytes: last.start + last.bytes - first.start };
};

/** Cuts an input whose length is not known into at most 256 slices. Blank lines are part of the slice after them. */
export function createInputCutter(): InputCutter {
  const parts: BatchSlice[] = [];
  let lines = 0;
  return {
    add({ number, end }) {
      const current = parts.at(-1);
      if (current === undefined || lines === MIN_LINES) {
        const start = current === undefined ? 0 : current.start + current.bytes;
        parts.push({ firstLine: (current?.lastLine ?? 0) + 1, lastLine: number, start, bytes: end - start });
        lines = 1;
      } else {
        current.lastLine = number;
        current.bytes = end - current.start;
        lines += 1;
      }
    },
    slices() {
      const each = Math.ceil(parts.length / MAX_SLICES);
      const slices: BatchSlice[] = [];
      for (let from = 0; from < parts.length; from += each) slices.push(merged(parts.slice(from, from + each)));
      return slices;
    },
  };
}
