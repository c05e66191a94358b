/** Writes float32 values into a buffer as the shortest decimals that parse to the same float32. */

const POWERS = Float64Array.from({ length: 23 }, (_, exponent) => 10 ** exponent);
/** Enough for a sign, `0.`, leading zeros, nine digits, an exponent and a comma. */
export const MAX_FLOAT_BYTES = 24;

const ZERO = 48;
const MINUS = 45;
const POINT = 46;
const COMMA = 44;

/** For the rare very small and very large values. Nine significant digits always identify a float32. */
function writeSlowly(value: number, target: Buffer, offset: number): number {
  for (let digits = 6; digits < 10; digits += 1) {
    const text = String(Number(value.toPrecision(digits)));
    if (digits === 9 || Math.fround(Number(text)) === value) return offset + target.write(text, offset, 'latin1');
  }
  return offset;
}

/** Writes any value at the offset and returns the offset behind it. */
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
    // JSON has no infinity and no NaN.
    if (!Number.isFinite(value)) return offset + target.write('null', offset, 'latin1');
    return writeSlowly(value, target, offset);
  }
  let leading = 0;
  while (size * (POWERS[leading + 1] as number) < 1) leading += 1;
  // Eight digits are usually enough, and then fewer may be; otherwise nine are. All fit into 32-bit integers.
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
    // Shorter numbers are among those of six digits, with zeros at the end.
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

const SIZE_BITS = 0x7f_ff_ff_ff;
const FRACTION_BITS = 0x7f_ff_ff;
const bitsOf = (size: number): number => new Int32Array(Float32Array.of(size).buffer)[0] as number;
const sizeOf = (bits: number): number => new Float32Array(Int32Array.of(bits).buffer)[0] as number;
/** The fast path covers sizes from 1e-6 up to 1: most values of unit vectors. */
const SMALLEST_BITS = bitsOf(1e-6) + (Math.fround(1e-6) < 1e-6 ? 1 : 0);
const ONE_BITS = bitsOf(1);

/** For each exponent: the first size in its range with one zero fewer behind the point. */
const FEWER_ZEROS_BITS = new Int32Array(256).fill(SIZE_BITS);
/** The tables below have two entries for each exponent: sizes before and after that point. Zeros behind the point. */
const ZEROS = new Uint8Array(512);
/** Factors that give a whole number of eight, seven or six digits. */
const EIGHT = new Float64Array(512);
const SEVEN = new Float64Array(512);
const SIX = new Float64Array(512);
/** The largest distance from the eight digits at which a number still parses to the same float32. */
const REACH = new Float64Array(512);

function zerosOf(size: number): number {
  let zeros = 0;
  while (size * (POWERS[zeros + 1] as number) < 1) zeros += 1;
  return zeros;
}

for (let exponent = SMALLEST_BITS >> 23; exponent < ONE_BITS >> 23; exponent += 1) {
  const first = exponent << 23;
  const most = zerosOf(sizeOf(first));
  const fewest = zerosOf(sizeOf(first | FRACTION_BITS));
  if (fewest < most) {
    const near = bitsOf(10 ** -most);
    FEWER_ZEROS_BITS[exponent] = zerosOf(sizeOf(near)) < most ? near : near + 1;
  }
  for (const [row, zeros] of [most, fewest].entries()) {
    const at = exponent * 2 + row;
    ZEROS[at] = zeros;
    EIGHT[at] = POWERS[zeros + 8] as number;
    SEVEN[at] = POWERS[zeros + 7] as number;
    SIX[at] = POWERS[zeros + 6] as number;
    REACH[at] = 2 ** (exponent - 151) * (POWERS[zeros + 8] as number);
  }
}

/** `0000` to `9999` as four bytes in little-endian order. */
const FOUR_DIGITS = new Int32Array(10_000);
for (let number = 0; number < 10_000; number += 1) {
  FOUR_DIGITS[number] = Buffer.from(String(number).padStart(4, '0')).readInt32LE();
}
const ZERO_POINT_ZEROS = 0x30302e30;
const FOUR_ZEROS = 0x30303030;

/**
 * Writes values with a comma after each: the same digits as `writeFloat`, twice as fast. The number of leading zeros comes from a table,
 * the sign and the choice of seven or eight digits need no branch that the processor would mispredict, and four digits are written at
 * a time. Each value needs room for `MAX_FLOAT_BYTES`.
 */
export function writeFloats(values: Float32Array, target: Buffer, offset: number): number {
  const bits = new Int32Array(values.buffer, values.byteOffset, values.length);
  const view = new DataView(target.buffer, target.byteOffset, target.byteLength);
  let at = offset;
  for (let index = 0; index < values.length; index += 1) {
    const signed = bits[index] as number;
    const unsigned = signed & SIZE_BITS;
    const exponent = unsigned >> 23;
    const entry = exponent * 2 + (((FEWER_ZEROS_BITS[exponent] as number) - 1 - unsigned) >>> 31);
    const size = Math.abs(values[index] as number);
    const exact = size * (EIGHT[entry] as number);
    const reach = REACH[entry] as number;
    const six = (size * (SIX[entry] as number) + 0.5) | 0;
    const isShort = Math.abs(six * 100 - exact) < reach;
    // Below a power of two the next float32 is closer than above it.
    if (isShort || unsigned < SMALLEST_BITS || unsigned >= ONE_BITS || (unsigned & FRACTION_BITS) === 0) {
      at = writeFloat(values[index] as number, target, at);
      target[at++] = COMMA;
      continue;
    }
    view.setUint8(at, MINUS);
    at += signed >>> 31;
    view.setInt32(at, ZERO_POINT_ZEROS, true);
    view.setInt32(at + 4, FOUR_ZEROS, true);
    at += 2 + (ZEROS[entry] as number);
    let eight = (exact + 0.5) | 0;
    let digits = 8;
    if (Math.abs(eight - exact) < reach) {
      const seven = ((size * (SEVEN[entry] as number) + 0.5) | 0) * 10;
      // 1 or 0.
      const isEnough = Math.floor(Math.abs(seven - exact) - reach) >>> 31;
      eight += Math.imul(isEnough, seven - eight);
      digits -= isEnough;
    } else {
      const nine = (size * ((EIGHT[entry] as number) * 10) + 0.5) | 0;
      eight = (nine / 10) | 0;
      digits = 9;
      view.setUint8(at + 8, ZERO + nine - eight * 10);
    }
    const upper = (eight / 10_000) | 0;
    view.setInt32(at, FOUR_DIGITS[upper] as number, true);
    view.setInt32(at + 4, FOUR_DIGITS[eight - upper * 10_000] as number, true);
    at += digits;
    view.setUint8(at, COMMA);
    at += 1;
  }
  return at;
}
