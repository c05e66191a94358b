/** Splits ids into overlapping windows of at most `size`, so that every passage is whole in one of them. */
export function windows(ids: Int32Array, size: number): Int32Array[] {
  if (ids.length <= size) return [ids];
  const step = Math.max(1, size - (size >> 2));
  const parts: Int32Array[] = [];
  for (let start = 0; ; start += step) {
    parts.push(ids.subarray(start, start + size));
    if (start + size >= ids.length) return parts;
  }
}
