export interface SizedRange {
  start: number;
  /** Inclusive. */
  end: number;
}

/**
 * Parses a `Range` header. Undefined: send everything, as RFC 9110 allows for malformed ranges, other units and several parts.
 * `unsatisfiable`: the range is outside of the file.
 */
export function parseByteRange(header: string | undefined, size: number): SizedRange | 'unsatisfiable' | undefined {
  const parts = /^bytes *= *(\d*) *- *(\d*)$/i.exec(header?.trim() ?? '');
  if (parts === null) return undefined;
  const [, first = '', last = ''] = parts;
  if (first === '' && last === '') return undefined;
  if (first === '') {
    const suffix = Number(last);
    if (suffix === 0 || size === 0) return 'unsatisfiable';
    return { start: Math.max(0, size - suffix), end: size - 1 };
  }
  const start = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (last !== '' && Number(last) < start) return undefined;
  return start >= size ? 'unsatisfiable' : { start, end };
}
