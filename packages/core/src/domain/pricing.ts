import { type Consumption, forEachMeasure, MEASURE_NAMES, MEASURES, type MeasureName } from './measures.ts';
import type { Pricing } from './model.ts';
import { decimalUnits } from './money.ts';

const UNITS_PER_NANO_USD = 10n ** 9n;

/** What most requests are measured by. Their prices are for a million. */
const TOKENS = ['promptTokens', 'completionTokens', 'cacheReadTokens'] as const satisfies readonly MeasureName[];
type TokenPrices = Record<(typeof TOKENS)[number], number>;
const PER_MILLION = 1_000_000;
const OTHERS = MEASURE_NAMES.filter((name) => !(TOKENS as readonly string[]).includes(name));
/** Prices are added up in fractions of this. */
const COMMON_UNITS = OTHERS.reduce(
  (product, name) => product * BigInt(MEASURES[name].price.units),
  BigInt(PER_MILLION),
);
const DENOMINATOR = UNITS_PER_NANO_USD * COMMON_UNITS * 100n;
const TWICE_DENOMINATOR = 2n * DENOMINATOR;
/** Measures that count others too. */
const WHOLES = MEASURE_NAMES.map((name) => ({ name, parts: MEASURES[name].includes as readonly MeasureName[] })).filter(
  ({ parts }) => parts.length > 0,
);

/**
 * The exact price of a request in nano-USD: all parts are added as fractions of integers and the sum is rounded once, half
 * up. A part whose price is null is free. That includes cached tokens: a model that charges for prompts but has no
 * cache-read price does not charge for them.
 */
export function costNanoUsd(used: Consumption, pricing: Pricing, discountPercent = 0): number {
  const prices = pricesOf(pricing);
  if (discountPercent === 0 && prices.nano !== undefined) {
    const cost = costOfTokens(used, prices.nano);
    if (cost !== undefined) return cost;
  }
  assertConsumption(used);
  if (!(Number.isInteger(discountPercent) && discountPercent >= 0 && discountPercent <= 100)) {
    throw new RangeError(`a discount of ${discountPercent} percent is not a whole number from 0 to 100`);
  }
  return costInUnits(used, prices.units, discountPercent);
}

const isCount = (amount: number): boolean => Number.isSafeInteger(amount) && amount >= 0;

/**
 * The price of most requests: a short way for these three measures alone, without BigInt, which takes longer than the rest of a bill. Every
 * step is exact while the sum is a safe integer. Undefined otherwise, for other measures, and for counts that are wrong.
 */
function costOfTokens(used: Consumption, nano: TokenPrices): number | undefined {
  const { promptTokens, completionTokens, cacheReadTokens } = used;
  for (const name of OTHERS) if (used[name] !== 0) return undefined;
  if (!isCount(promptTokens) || !isCount(completionTokens) || !isCount(cacheReadTokens)) return undefined;
  if (cacheReadTokens > promptTokens) return undefined;
  const millionths =
    (promptTokens - cacheReadTokens) * nano.promptTokens +
    cacheReadTokens * nano.cacheReadTokens +
    completionTokens * nano.completionTokens;
  if (millionths > Number.MAX_SAFE_INTEGER) return undefined;
  const rest = millionths % PER_MILLION;
  return (millionths - rest) / PER_MILLION + (2 * rest >= PER_MILLION ? 1 : 0);
}

/** The price at any consumption, price and discount. */
function costInUnits(used: Consumption, prices: readonly bigint[], discountPercent: number): number {
  let sum = 0n;
  for (let index = 0; index < MEASURE_NAMES.length; index += 1) {
    const amount = used[MEASURE_NAMES[index] as MeasureName];
    if (amount !== 0) sum += BigInt(amount) * (prices[index] ?? 0n);
  }
  const rounded = (sum * BigInt(200 - 2 * discountPercent) + DENOMINATOR) / TWICE_DENOMINATOR;
  if (rounded > BigInt(Number.MAX_SAFE_INTEGER)) throw new RangeError('one request cannot cost nine million dollars');
  return Number(rounded);
}

/** What one of each measure costs, in the order of the table. What is a part of another is charged instead of it, not twice. */
interface Prices {
  /** In units of 10^-18 USD for the common number of units. */
  units: readonly bigint[];
  /** For a million. Undefined when one of them is not a safe integer. */
  nano: TokenPrices | undefined;
}

/** Prices are converted to integers once for each catalog entry, not for each request. */
const known = new WeakMap<Pricing, Prices>();

function pricesOf(pricing: Pricing): Prices {
  const found = known.get(pricing);
  if (found !== undefined) return found;
  const own = forEachMeasure((name) => decimalUnits(pricing[MEASURES[name].price.name] ?? 0));
  const net = (name: MeasureName) =>
    WHOLES.reduce((price, whole) => (whole.parts.includes(name) ? price - own[whole.name] : price), own[name]);
  const isWhole = Object.values(own).every(
    (each) => each % UNITS_PER_NANO_USD === 0n && each / UNITS_PER_NANO_USD <= BigInt(Number.MAX_SAFE_INTEGER),
  );
  const prices = {
    units: MEASURE_NAMES.map((name) => (net(name) * COMMON_UNITS) / BigInt(MEASURES[name].price.units)),
    nano: isWhole ? forEachMeasure((name) => Number(own[name] / UNITS_PER_NANO_USD)) : undefined,
  };
  known.set(pricing, prices);
  return prices;
}

/** Catches our own mistakes before they reach a bill. */
function assertConsumption(used: Consumption): void {
  for (const name of MEASURE_NAMES) {
    const amount = used[name];
    if (!(Number.isSafeInteger(amount) && amount >= 0))
      throw new RangeError(`${name} is ${amount}, not a whole number`);
  }
  for (const { name, parts } of WHOLES) {
    let rest = used[name];
    for (const part of parts) rest -= used[part];
    if (rest < 0) throw new RangeError(`${parts.join(' and ')} are more than ${name}`);
  }
}
