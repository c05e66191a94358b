import { type ParseArgsConfig, parseArgs } from 'node:util';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '@baobab/core/domain/time/durations.ts';
import { nearest } from '@baobab/core/runtime/nearest.ts';
import { UsageError } from './command.ts';

type Options = NonNullable<ParseArgsConfig['options']>;
type Token = ReturnType<typeof parseArgs<{ tokens: true; strict: false }>>['tokens'][number];

function optionProblem(token: Token, options: Options): string | undefined {
  if (token.kind !== 'option') return undefined;
  const { rawName, value, inlineValue } = token;
  const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined;
  if (option === undefined) {
    const names = Object.keys(options).map((name) => `--${name}`);
    const meant = nearest(rawName, names);
    if (meant !== undefined) return `there is no option '${rawName}'; did you mean '${meant}'?`;
    return `there is no option '${rawName}'${names.length === 0 ? '' : `; there are ${names.join(', ')}`}`;
  }
  if (option.type === 'boolean') return inlineValue ? `${rawName} takes no value` : undefined;
  if (value === undefined) return `${rawName} needs a value`;
  if (inlineValue || !value.startsWith('-')) return undefined;
  return `${rawName} needs a value, and '${value}' starts with a dash; write ${rawName}=${value} to pass it`;
}

const tokensOf = (args: readonly string[], options: Options) =>
  parseArgs({ args: [...args], options, allowPositionals: true, strict: false, tokens: true }).tokens;

/** `--rpm -5` → `--rpm=-5`: a negative number is a value, and its option says which ones it takes. */
function joinNegative(args: readonly string[], options: Options): string[] {
  const joined: string[] = [...args];
  for (const token of tokensOf(args, options).toReversed()) {
    if (token.kind !== 'option' || token.inlineValue !== false || !/^-\d/.test(token.value)) continue;
    joined.splice(token.index, 2, `${token.rawName}=${token.value}`);
  }
  return joined;
}

/** Parses the options of a command. Throws on an unknown one. */
export function parseOptions<T extends Options>(given: readonly string[], options: T) {
  const args = joinNegative(given, options);
  const common = { args, options, allowPositionals: true } as const;
  for (const token of tokensOf(args, options)) {
    const problem = optionProblem(token, options);
    if (problem !== undefined) throw new UsageError(problem);
  }
  return parseArgs({ ...common, strict: true });
}

const wholeNumber = (text: string): number => (/^\d{1,15}$/.test(text) ? Number(text) : Number.NaN);

/** From 1 on, as in the API. */
export function integerOption(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const integer = wholeNumber(text);
  if (integer >= 1) return integer;
  throw new UsageError(`--${name} must be a whole number, 1 or more, not '${text}'`);
}

export function countOption(name: string, text: string | undefined, most: number): number | undefined {
  if (text === undefined) return undefined;
  const count = wholeNumber(text);
  if (count >= 1 && count <= most) return count;
  throw new UsageError(`--${name} must be a whole number from 1 to ${most}, not '${text}'`);
}

/** US dollars to integer nano-dollars, exactly: `12.5` → 12500000000. */
export function dollarsOption(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const parts = /^(\d{1,7})(?:\.(\d{1,9}))?$/.exec(text);
  if (parts === null)
    throw new UsageError(`--${name} must be an amount in US dollars, 0 or more, such as 25 or 12.50, not '${text}'`);
  return Number(parts[1]) * 1_000_000_000 + Number((parts[2] ?? '').padEnd(9, '0'));
}

const UNITS: Record<string, number> = { s: 1_000, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS };

/** `90s`, `15m`, `24h`, `1d` in milliseconds. */
export function durationOption(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const parts = /^(\d+)([smhd])$/.exec(text);
  if (parts === null)
    throw new UsageError(`--${name} must be a duration with a unit, such as 90s, 15m or 24h, not '${text}'`);
  return Number(parts[1]) * (UNITS[parts[2] as string] as number);
}
