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
    const meant = nearest(
      rawName,
      Object.keys(options).map((name) => `--${name}`),
    );
    return `there is no option '${rawName}'${meant === undefined ? '' : `; did you mean '${meant}'?`}`;
  }
  if (option.type === 'boolean') return inlineValue ? `${rawName} takes no value` : undefined;
  if (value === undefined) return `${rawName} needs a value`;
  if (inlineValue || !value.startsWith('-')) return undefined;
  return `${rawName} needs a value, and '${value}' starts with a dash; write ${rawName}=${value} to pass it`;
}

/** Parses the options of a command. Throws on an unknown one. */
export function parseOptions<T extends Options>(args: readonly string[], options: T) {
  const common = { args: [...args], options, allowPositionals: true } as const;
  for (const token of parseArgs({ ...common, strict: false, tokens: true }).tokens) {
    const problem = optionProblem(token, options);
    if (problem !== undefined) throw new UsageError(problem);
  }
  return parseArgs({ ...common, strict: true });
}

export function integerOption(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new UsageError(`--${name} must be a whole number, not '${text}'`);
  return Number(text);
}

/** From 1 on, as in the API. */
export function countOption(name: string, text: string | undefined, most: number): number | undefined {
  const count = integerOption(name, text);
  if (count === undefined || (count >= 1 && count <= most)) return count;
  throw new UsageError(`--${name} must be between 1 and ${most}, not ${count}`);
}

/** US dollars to integer nano-dollars, exactly: `12.5` → 12500000000. */
export function dollarsOption(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const parts = /^(\d{1,7})(?:\.(\d{1,9}))?$/.exec(text);
  if (parts === null)
    throw new UsageError(`--${name} must be an amount in US dollars such as 25 or 12.50, not '${text}'`);
  return Number(parts[1]) * 1_000_000_000 + Number((parts[2] ?? '').padEnd(9, '0'));
}

const UNITS: Record<string, number> = { s: 1_000, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS };

/** `90s`, `15m`, `24h`, `30d` in milliseconds. */
export function durationOption(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const parts = /^(\d+)([smhd])$/.exec(text);
  if (parts === null) throw new UsageError(`--${name} must be a duration such as 90s, 15m, 24h or 30d, not '${text}'`);
  return Number(parts[1]) * (UNITS[parts[2] as string] as number);
}
