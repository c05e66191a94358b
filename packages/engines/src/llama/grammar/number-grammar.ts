import type { Conversion, Site } from './conversion.ts';
import { literal } from './grammar-rules.ts';
import { cannotExpress, type SchemaObject } from './schema-document.ts';

/** Bounds, both inclusive; infinite where there is none. */
export interface NumberRange {
  min: number;
  max: number;
}

/** Integers of more digits would not survive a JSON parser. */
const MAX_DIGITS = 15;
const LARGEST = 10 ** MAX_DIGITS - 1;

/** Ranges of several lengths may begin with the same digits. */
const BOUNDED_WAYS = 16;

/** The numbers of a schema with `minimum`, `maximum` and the like. */
export function numberSchemaGrammar(
  { rules, shapes }: Conversion,
  schema: SchemaObject,
  integer: boolean,
  { location }: Site,
): string {
  if (schema.multipleOf !== undefined && schema.multipleOf !== 1) throw cannotExpress(location, 'multipleOf');
  const whole = integer || schema.multipleOf === 1;
  const bound = (key: string, none: number) => (typeof schema[key] === 'number' ? schema[key] : none);
  const [above, below] = [bound('exclusiveMinimum', -Infinity), bound('exclusiveMaximum', Infinity)];
  const [from, to] = [bound('minimum', -Infinity), bound('maximum', Infinity)];
  const exclusive = { min: above >= from && above !== -Infinity, max: below <= to && below !== Infinity };
  const range = { min: Math.max(above, from), max: Math.min(below, to) };
  const expression = whole
    ? integerGrammar({
        min: exclusive.min ? Math.floor(range.min) + 1 : range.min,
        max: exclusive.max ? Math.ceil(range.max) - 1 : range.max,
      })
    : numberGrammar(range, exclusive);
  if (expression === undefined) throw cannotExpress(location, 'minimum', 'no number is between the bounds');
  const name = rules.add(whole ? 'integer' : 'number', expression);
  const bounded = range.min > -Infinity || range.max < Infinity;
  shapes.set(name, { type: 'scalar', starts: '0', ways: bounded ? BOUNDED_WAYS : 4 });
  return name;
}

/** A GBNF expression for the integers of a range, undefined when there is none. */
function integerGrammar({ min, max }: NumberRange): string | undefined {
  const low = Math.max(Math.ceil(min), -LARGEST);
  const high = Math.min(Math.floor(max), LARGEST);
  if (low > high) return undefined;
  if (low === -LARGEST && high === LARGEST) return `"-"? ("0" | [1-9] [0-9]{0,${MAX_DIGITS - 1}})`;
  const parts: string[] = [];
  if (low < 0) parts.push(`"-" (${naturals(Math.max(1, -high), -low).join(' | ')})`);
  if (high >= 0) parts.push(...naturals(Math.max(0, low), high));
  return parts.join(' | ');
}

/**
 * A GBNF expression for numbers of a range, undefined when none can be written. It may leave out some values near a bound
 * that is not an integer. It never accepts a wrong one.
 */
export function numberGrammar(
  { min, max }: NumberRange,
  exclusive: { min: boolean; max: boolean },
): string | undefined {
  if (min === Number.NEGATIVE_INFINITY && max === Number.POSITIVE_INFINITY) {
    return `"-"? ("0" | [1-9] [0-9]{0,${MAX_DIGITS - 1}}) ("." [0-9]{1,${MAX_DIGITS}})? ([eE] [-+]? [0-9]{1,2})?`;
  }
  const [low, high] = [Math.max(Math.ceil(min), -LARGEST), Math.min(Math.floor(max), LARGEST)];
  const parts: string[] = [];
  const whole = integerGrammar({
    min: exclusive.min && low === min ? low + 1 : low,
    max: exclusive.max && high === max ? high - 1 : high,
  });
  if (whole !== undefined) parts.push(whole);
  // A non-zero fraction is strictly between two integers and away from zero: -4.5 belongs to -4.
  const fraction = '"." [0-9]{0,5} [1-9]';
  const negative = low < 0 ? naturals(Math.max(0, -high), -low - 1) : [];
  const positive = high > 0 ? naturals(Math.max(0, low), high - 1) : [];
  if (negative.length > 0) parts.push(`"-" (${negative.join(' | ')}) ${fraction}`);
  if (positive.length > 0) parts.push(`(${positive.join(' | ')}) ${fraction}`);
  return parts.length > 0 ? parts.join(' | ') : fractionGrammar({ min, max }, exclusive);
}

/** No integer between the bounds: decimals with just enough digits, such as 0.25 to 0.75 as 0.3 to 0.7. */
function fractionGrammar({ min, max }: NumberRange, exclusive: { min: boolean; max: boolean }): string | undefined {
  for (let digits = 1; digits <= 9; digits++) {
    const scale = 10 ** digits;
    const inside = (value: number) =>
      (exclusive.min ? value / scale > min : value / scale >= min) &&
      (exclusive.max ? value / scale < max : value / scale <= max);
    let low = Math.floor(min * scale);
    let high = Math.ceil(max * scale);
    while (low <= high && !inside(low)) low++;
    while (high >= low && !inside(high)) high--;
    if (low > high) continue;
    const negative = high < 0;
    const [from, to] = negative ? [-high, -low] : [low, high];
    const integer = Math.floor(from / scale);
    const range = padded(from - integer * scale, to - integer * scale, digits);
    return `${literal(`${negative ? '-' : ''}${integer}.`)} (${range.join(' | ')})`;
  }
  return undefined;
}

/** Alternatives that together match the decimal writing of every integer from `low` to `high`, both at least 0. */
function naturals(low: number, high: number): string[] {
  const parts: string[] = [];
  if (low > high) return parts;
  for (let digits = String(low).length; digits <= String(high).length; digits++) {
    const smallest = digits === 1 ? 0 : 10 ** (digits - 1);
    parts.push(...padded(Math.max(low, smallest), Math.min(high, 10 ** digits - 1), digits));
  }
  return parts;
}

/** The same for numbers written with exactly `width` digits. */
function padded(low: number, high: number, width: number): string[] {
  if (low > high) return [];
  if (width === 1) return [low === high ? literal(String(low)) : `[${low}-${high}]`];
  const unit = 10 ** (width - 1);
  const first = Math.floor(low / unit);
  const last = Math.floor(high / unit);
  const lowRest = low % unit;
  const highRest = high % unit;
  const withLead = (lead: string, rest: string[]) => `${lead} (${rest.join(' | ')})`;
  if (first === last) return [withLead(literal(String(first)), padded(lowRest, highRest, width - 1))];
  const parts: string[] = [];
  const anyRest = `[0-9]{${width - 1}}`;
  const middleFrom = lowRest === 0 ? first : first + 1;
  const middleTo = highRest === unit - 1 ? last : last - 1;
  if (middleFrom > first) parts.push(withLead(literal(String(first)), padded(lowRest, unit - 1, width - 1)));
  if (middleFrom <= middleTo) {
    const lead = middleFrom === middleTo ? literal(String(middleFrom)) : `[${middleFrom}-${middleTo}]`;
    parts.push(`${lead} ${anyRest}`);
  }
  if (middleTo < last) parts.push(withLead(literal(String(last)), padded(0, highRest, width - 1)));
  return parts;
}
