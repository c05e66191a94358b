/** Inside, money is an integer number of nano-USD, billionths of a dollar. Prices may have this many decimal places. */
const SCALE_DIGITS = 18;

/**
 * A decimal as it was written, as an integer count of 10^-18. JavaScript prints the shortest decimal that means a number, so
 * 0.1 is one tenth here and not 0.1000000000000000055.
 */
export function decimalUnits(value: number): bigint {
  const match = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value));
  if (!match) throw new RangeError(`${value} is not a decimal number of zero or more`);
  const [, whole = '', fraction = '', exponent = '0'] = match;
  const shift = SCALE_DIGITS - fraction.length + Number(exponent);
  if (shift < 0) throw new RangeError(`${value} has more than ${SCALE_DIGITS} digits after the point`);
  return BigInt(whole + fraction) * 10n ** BigInt(shift);
}

/** The exact decimal without trailing zeros: `0.000001234`. */
export function usdText(nanoUsd: bigint | number): string {
  const amount = BigInt(nanoUsd);
  const sign = amount < 0n ? '-' : '';
  const digits = (amount < 0n ? -amount : amount).toString().padStart(10, '0');
  const fraction = digits.slice(-9).replace(/0+$/, '');
  return `${sign}${digits.slice(0, -9)}${fraction === '' ? '' : `.${fraction}`}`;
}

/** The number whose JSON text is that exact decimal, for up to 15 digits: below a million dollars. */
export const usdNumber = (nanoUsd: bigint | number): number => Number(usdText(nanoUsd));

export const usdNumberOrNull = (nanoUsd: bigint | number | null): number | null =>
  nanoUsd === null ? null : usdNumber(nanoUsd);
