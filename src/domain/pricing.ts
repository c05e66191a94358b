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

const KINDS = ['promptTokens', 'completionTokens', 'cacheReadTokens', 'audioSeconds'] as const;
const UNITS_PER_NANO_USD = 10n ** 9n;
const TOKENS_PER_PRICE = 1_000_000n;
const SECONDS_PER_MINUTE = 60n;
const DENOMINATOR = UNITS_PER_NANO_USD * TOKENS_PER_PRICE * SECONDS_PER_MINUTE * 100n;

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
  const prices = unitsOf(pricing);
  const perTokens =
    charge(used.promptTokens - used.cacheReadTokens, prices.promptPerMillion) +
    charge(used.cacheReadTokens, prices.cacheReadPerMillion) +
    charge(used.completionTokens, prices.completionPerMillion);
  const perSeconds = charge(used.audioSeconds, prices.audioPerMinute);

  const numerator = (perTokens * SECONDS_PER_MINUTE + perSeconds * TOKENS_PER_PRICE) * BigInt(100 - discountPercent);
  const rounded = (2n * numerator + DENOMINATOR) / (2n * DENOMINATOR);
  if (rounded > BigInt(Number.MAX_SAFE_INTEGER)) throw new RangeError('one request cannot cost nine million dollars');
  return Number(rounded);
}

const charge = (amount: number, units: bigint): bigint => (amount === 0 ? 0n : BigInt(amount) * units);

/** Prices are read from text to integers once for each entry of the catalog, not for each request. */
const known = new WeakMap<Pricing, Record<keyof Pricing, bigint>>();

function unitsOf(pricing: Pricing): Record<keyof Pricing, bigint> {
  const found = known.get(pricing);
  if (found !== undefined) return found;
  const units = (price: number | null) => (price === null ? 0n : decimalUnits(price));
  const prices = {
    promptPerMillion: units(pricing.promptPerMillion),
    completionPerMillion: units(pricing.completionPerMillion),
    cacheReadPerMillion: units(pricing.cacheReadPerMillion),
    audioPerMinute: units(pricing.audioPerMinute),
  };
  known.set(pricing, prices);
  return prices;
}

/** A count that is no whole number is a mistake of ours, and must not reach a bill. */
export function assertConsumption(used: Consumption): void {
  for (const kind of KINDS) {
    const amount = used[kind];
    if (!(Number.isSafeInteger(amount) && amount >= 0))
      throw new RangeError(`${kind} is ${amount}, not a whole number`);
  }
  if (used.cacheReadTokens > used.promptTokens) {
    throw new RangeError(`${used.cacheReadTokens} cached tokens in a prompt of ${used.promptTokens}`);
  }
}
