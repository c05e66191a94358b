/** Cuts ids into windows of at most `size` that overlap, so that no passage is only seen across a cut. */
export function windows(ids: Int32Array, size: number): Int32Array[] {
  if (ids.length <= size) return [ids];
  const step = Math.max(1, size - (size >> 2));
  const parts: Int32Array[] = [];
  for (let start = 0; ; start += step) {
    parts.push(ids.subarray(start, start + size));
    if (start + size >= ids.length) return parts;
  }
}
