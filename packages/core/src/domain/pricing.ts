import type { Pricing } from './model.ts';
import { decimalUnits } from './money.ts';

/** What one request used. */
export interface Consumption {
  /** The whole prompt, including tokens read from the cache. */
  promptTokens: number;
  completionTokens: number;
  cacheReadTokens: number;
  /** Rounded up to whole seconds. */
  audioSeconds: number;
}

export const NOTHING_USED: Consumption = { promptTokens: 0, completionTokens: 0, cacheReadTokens: 0, audioSeconds: 0 };

/** Counts that are not given are zero. */
export const consumptionOf = ({
  promptTokens = 0,
  completionTokens = 0,
  cacheReadTokens = 0,
  audioSeconds = 0,
}: Partial<Consumption>): Consumption => ({ promptTokens, completionTokens, cacheReadTokens, audioSeconds });

const UNITS_PER_NANO_USD = 10n ** 9n;
const TOKENS_PER_PRICE = 1_000_000;
const SECONDS_PER_MINUTE = 60n;
const DENOMINATOR = UNITS_PER_NANO_USD * BigInt(TOKENS_PER_PRICE) * SECONDS_PER_MINUTE * 100n;

/**
 * The exact price of a request in nano-USD: all parts are added as fractions of integers and the sum is rounded once, half
 * up. A part whose price is null is free. That includes cached tokens: a model that charges for prompts but has no
 * cache-read price does not charge for them.
 */
export function costNanoUsd(used: Consumption, pricing: Pricing, discountPercent = 0): number {
  assertConsumption(used);
  if (!(Number.isInteger(discountPercent) && discountPercent >= 0 && discountPercent <= 100)) {
    throw new RangeError(`a discount of ${discountPercent} percent is not a whole number from 0 to 100`);
  }
  const prices = pricesOf(pricing);
  if (used.audioSeconds === 0 && discountPercent === 0 && prices.nano !== undefined) {
    const cost = costOfTokens(used, prices.nano);
    if (cost !== undefined) return cost;
  }
  return costInUnits(used, prices.units, discountPercent);
}

/**
 * The price of most requests, without BigInt, which takes longer than the rest of a bill. Every step is exact while the sum is
 * a safe integer. Undefined otherwise.
 */
function costOfTokens(used: Consumption, nano: Record<keyof Pricing, number>): number | undefined {
  const millionths =
    (used.promptTokens - used.cacheReadTokens) * nano.promptPerMillion +
    used.cacheReadTokens * nano.cacheReadPerMillion +
    used.completionTokens * nano.completionPerMillion;
  if (millionths > Number.MAX_SAFE_INTEGER) return undefined;
  const rest = millionths % TOKENS_PER_PRICE;
  return (millionths - rest) / TOKENS_PER_PRICE + (2 * rest >= TOKENS_PER_PRICE ? 1 : 0);
}

/** The price at any consumption, price and discount. */
function costInUnits(used: Consumption, prices: Record<keyof Pricing, bigint>, discountPercent: number): number {
  const perTokens =
    charge(used.promptTokens - used.cacheReadTokens, prices.promptPerMillion) +
    charge(used.cacheReadTokens, prices.cacheReadPerMillion) +
    charge(used.completionTokens, prices.completionPerMillion);
  const perSeconds = charge(used.audioSeconds, prices.audioPerMinute);

  const numerator =
    (perTokens * SECONDS_PER_MINUTE + perSeconds * BigInt(TOKENS_PER_PRICE)) * BigInt(100 - discountPercent);
  const rounded = (2n * numerator + DENOMINATOR) / (2n * DENOMINATOR);
  if (rounded > BigInt(Number.MAX_SAFE_INTEGER)) throw new RangeError('one request cannot cost nine million dollars');
  return Number(rounded);
}

const charge = (amount: number, units: bigint): bigint => (amount === 0 ? 0n : BigInt(amount) * units);

interface Prices {
  /** In units of 10^-18 USD. */
  units: Record<keyof Pricing, bigint>;
  /** Undefined when one of them is not a safe integer. */
  nano: Record<keyof Pricing, number> | undefined;
}

/** Prices are converted to integers once for each catalog entry, not for each request. */
const known = new WeakMap<Pricing, Prices>();

function pricesOf(pricing: Pricing): Prices {
  const found = known.get(pricing);
  if (found !== undefined) return found;
  const units = mapPrices(pricing, (price) => (price === null ? 0n : decimalUnits(price)));
  const isWhole = Object.values(units).every(
    (each) => each % UNITS_PER_NANO_USD === 0n && each / UNITS_PER_NANO_USD <= BigInt(Number.MAX_SAFE_INTEGER),
  );
  const nano = isWhole ? mapPrices(units, (each) => Number(each / UNITS_PER_NANO_USD)) : undefined;
  const prices = { units, nano };
  known.set(pricing, prices);
  return prices;
}

const mapPrices = <From, To>(prices: Record<keyof Pricing, From>, map: (price: From) => To) => ({
  promptPerMillion: map(prices.promptPerMillion),
  completionPerMillion: map(prices.completionPerMillion),
  cacheReadPerMillion: map(prices.cacheReadPerMillion),
  audioPerMinute: map(prices.audioPerMinute),
});

/** Catches our own mistakes before they reach a bill. */
function assertConsumption(used: Consumption): void {
  assertCount('promptTokens', used.promptTokens);
  assertCount('completionTokens', used.completionTokens);
  assertCount('cacheReadTokens', used.cacheReadTokens);
  assertCount('audioSeconds', used.audioSeconds);
  if (used.cacheReadTokens > used.promptTokens) {
    throw new RangeError(`${used.cacheReadTokens} cached tokens in a prompt of ${used.promptTokens}`);
  }
}

function assertCount(kind: keyof Consumption, amount: number): void {
  if (!(Number.isSafeInteger(amount) && amount >= 0)) throw new RangeError(`${kind} is ${amount}, not a whole number`);
}
