import type { Pricing } from './model.ts';
import { decimalUnits } from './money.ts';

/** What one request used. */
export interface Consumption {
  /** All of the prompt, those read from the cache among them. */
  promptTokens: number;
  completionTokens: number;
  cacheReadTokens: number;
  /** Whole seconds, begun ones count. */
  audioSeconds: number;
}

export const NOTHING_USED: Consumption = { promptTokens: 0, completionTokens: 0, cacheReadTokens: 0, audioSeconds: 0 };

/** What is not told was not used. */
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
 * The price of a request in nano-USD, exact: every kind is added up as a fraction of integers, and the sum is rounded once, half
 * up. A kind whose price is null is not billed; that holds for cached tokens too: a model that charges for its prompts but has no
 * cache-read price gives cached tokens away.
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
 * What most requests cost, without big integers: they take longer than all the rest of a bill. Every step is exact as long as the sum is
 * a safe integer: products and sums of integers below 2^53, a remainder, and the division of what it leaves. Undefined otherwise.
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

/** The same for all that can be used, at any price and discount. */
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
  /** Of 10^-18 USD. */
  units: Record<keyof Pricing, bigint>;
  /** Undefined when one of them is no safe integer. */
  nano: Record<keyof Pricing, number> | undefined;
}

/** Prices are read from text to integers once for each entry of the catalog, not for each request. */
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

/** A count that is no whole number is a mistake of ours, and must not reach a bill. */
export function assertConsumption(used: Consumption): void {
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
