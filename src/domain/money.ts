/** Money is integer nano-USD inside: one billionth of a dollar. */
export const NANO_PER_USD = 1_000_000_000;

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

/** Dollars as a person writes them, for example a budget; null when they are finer than a nano-dollar or too large. */
export function nanoUsdFromUsd(usd: number): number | null {
  if (!(usd >= 0) || usd > Number.MAX_SAFE_INTEGER / NANO_PER_USD) return null;
  const perNano = 10n ** BigInt(SCALE_DIGITS - 9);
  const units = decimalUnits(usd);
  return units % perNano === 0n ? Number(units / perNano) : null;
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
