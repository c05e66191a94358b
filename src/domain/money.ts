/** Money is an integer count of nano-USD inside: billionths of a dollar. */
/** Digits after the point that a decimal number may have here. */
const SCALE_DIGITS = 18;

/**
 * The decimal that a person wrote, as an integer count of 10^-18. A JavaScript number prints the shortest decimal that means it, so
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

/** The exact decimal, without superfluous zeros: `0.000001234`. */
export function usdText(nanoUsd: bigint | number): string {
  const amount = BigInt(nanoUsd);
  const sign = amount < 0n ? '-' : '';
  const digits = (amount < 0n ? -amount : amount).toString().padStart(10, '0');
  const fraction = digits.slice(-9).replace(/0+$/, '');
  return `${sign}${digits.slice(0, -9)}${fraction === '' ? '' : `.${fraction}`}`;
}

/** The number whose JSON text is that exact decimal. Holds for up to 15 digits, that is below a million dollars. */
export const usdNumber = (nanoUsd: bigint | number): number => Number(usdText(nanoUsd));
