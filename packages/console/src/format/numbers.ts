const exact = new Intl.NumberFormat('en', { maximumFractionDigits: 9 });
const short = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });

const STEPS: readonly [number, string][] = [
  [1e12, ' T'],
  [1e9, ' B'],
  [1e6, ' M'],
  [1e4, ' k'],
];
const SMALLEST_SHORTENED = 1e4;

/** 1 234 567 as "1.23 M". Numbers under ten thousand stay exact. */
export function compact(value: number): string {
  const size = Math.abs(value);
  if (size < SMALLEST_SHORTENED) return size < 1000 ? short.format(value) : full(Math.round(value));
  for (const [step, suffix] of STEPS) {
    if (size >= step || step === SMALLEST_SHORTENED) {
      const divisor = step === SMALLEST_SHORTENED ? 1e3 : step;
      return `${short.format(value / divisor)}${suffix}`;
    }
  }
  return exact.format(value);
}

/** Every digit, with thousands separated. */
export function full(value: number): string {
  return exact.format(value);
}

/** Share of 0 to 1: "0.4 %", "12 %". */
export function percent(share: number): string {
  const value = share * 100;
  // Only nothing is 0, and only everything 100.
  if (value > 0 && value < 0.05) return '< 0.1 %';
  if (value >= 99.95 && value < 100) return '> 99.9 %';
  const isNearEnd = (value > 0 && value < 10) || (value > 99 && value < 100);
  return `${value.toFixed(isNearEnd ? 1 : 0)} %`;
}

const NANO_DIGITS = 9;

function digitsOf(usd: number): number {
  const size = Math.abs(usd);
  return size >= 1 || size === 0 ? 2 : Math.min(NANO_DIGITS, Math.max(2, Math.ceil(-Math.log10(size)) + 2));
}

function dollars(usd: number, digits: number): string {
  if (usd === 0) return '$0';
  const text = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: digits }).format(
    Math.abs(usd),
  );
  return `${usd < 0 ? '−' : ''}$${text}`;
}

/** Dollars with as many digits as they need, down to the nano-dollar: "$0.000016", "$12.40", "$1,204.51". */
export function money(usd: number): string {
  return dollars(usd, digitsOf(usd));
}

/** What was spent with the digits of its limit, which is shown as it was set. They are the same text only if they are equal. */
export function moneyOfLimit(spent: number, limit: number): [spent: string, limit: string] {
  const exactLimit = moneyExact(limit);
  let digits = Math.max(digitsOf(spent), exactLimit.split('.')[1]?.length ?? 0);
  while (digits < NANO_DIGITS && spent !== limit && dollars(spent, digits) === exactLimit) digits += 1;
  return [dollars(spent, digits), exactLimit];
}

/** Between the labels of an axis of counts: there are no 2.5 requests. */
export const COUNT_STEPS: number[] = Array.from({ length: 13 }, (_, power) =>
  [1, 2, 5].map((step) => step * 10 ** power),
).flat();

/** Labels of one axis: all with the digits that the most precise one needs. */
export function moneyAxis(values: number[]): string[] {
  const digits = Math.max(2, ...values.map((value) => money(value).split('.')[1]?.length ?? 0));
  return values.map((value) => (value === 0 ? '$0' : `$${value.toFixed(digits)}`));
}

/** All nine digits, so that amounts line up in a column. */
export function moneyColumn(usd: number): string {
  const text = new Intl.NumberFormat('en', { minimumFractionDigits: 9, maximumFractionDigits: 9 }).format(
    Math.abs(usd),
  );
  return `${usd < 0 ? '−' : ''}$${text}`;
}

/** To the nano-dollar, the unit of the ledger. */
export const moneyExact = (usd: number): string => dollars(usd, NANO_DIGITS);

const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < BYTE_UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toPrecision(3)} ${BYTE_UNITS[unit]}`;
}
