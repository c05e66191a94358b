/** Writes float32 values as the shortest decimals that read back to the same float32, straight into a byte buffer. */

const POWERS = Float64Array.from({ length: 23 }, (_, exponent) => 10 ** exponent);
/** Enough for a sign, `0.`, leading zeros, nine digits, an exponent and a comma. */
export const MAX_FLOAT_BYTES = 24;

const ZERO = 48;
const MINUS = 45;
const POINT = 46;

/** For the rare very small and very large values: nine significant digits always identify a float32. */
function writeSlowly(value: number, target: Buffer, offset: number): number {
  for (let digits = 6; digits < 10; digits += 1) {
    const text = String(Number(value.toPrecision(digits)));
    if (digits === 9 || Math.fround(Number(text)) === value) return offset + target.write(text, offset, 'latin1');
  }
  return offset;
}

/** Writes one value at the offset and returns the offset behind it. */
export function writeFloat(value: number, target: Buffer, offset: number): number {
  let at = offset;
  let size = value;
  if (value < 0) {
    target[at++] = MINUS;
    size = -value;
  }
  if (size === 0) {
    target[at++] = ZERO;
    return at;
  }
  if (!(size >= 1e-6 && size < 1)) {
    // JSON has no infinities; an engine that gives one is broken, and null says so.
    if (!Number.isFinite(value)) return offset + target.write('null', offset, 'latin1');
    return writeSlowly(value, target, offset);
  }
  let leading = 0;
  while (size * (POWERS[leading + 1] as number) < 1) leading += 1;
  // Eight digits are most often enough; then fewer may be, otherwise nine always are. All fit into 32-bit integers.
  let places = leading + 8;
  let whole = (size * (POWERS[places] as number) + 0.5) | 0;
  if (Math.fround(whole / (POWERS[places] as number)) !== size) {
    places += 1;
    whole = (size * (POWERS[places] as number) + 0.5) | 0;
  } else {
    while (places > leading + 6) {
      const fewer = (size * (POWERS[places - 1] as number) + 0.5) | 0;
      if (Math.fround(fewer / (POWERS[places - 1] as number)) !== size) break;
      places -= 1;
      whole = fewer;
    }
    // Six digits hold every shorter answer, with zeros behind.
    while (whole % 10 === 0) {
      whole = (whole / 10) | 0;
      places -= 1;
    }
  }
  if (places === 0) {
    target[at++] = ZERO + 1;
    return at;
  }
  target[at++] = ZERO;
  target[at++] = POINT;
  const end = at + places;
  for (let place = end - 1; place >= at; place -= 1) {
    const rest = (whole / 10) | 0;
    target[place] = ZERO + (whole - rest * 10);
    whole = rest;
  }
  return end;
}
