import { type ParseArgsConfig, parseArgs } from 'node:util';
import { UsageError } from './command.ts';

/** Strict parsing of a command's own options: an unknown one is an error that names it. */
export function parseOptions<T extends NonNullable<ParseArgsConfig['options']>>(args: readonly string[], options: T) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

export function integerOption(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d+$/.test(text)) throw new UsageError(`--${name} must be a whole number, not '${text}'`);
  return Number(text);
}

/** US dollars to integer nano-dollars, exactly: `12.5` → 12500000000. */
export function dollarsOption(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const parts = /^(\d{1,7})(?:\.(\d{1,9}))?$/.exec(text);
  if (parts === null)
    throw new UsageError(`--${name} must be an amount in US dollars such as 25 or 12.50, not '${text}'`);
  return Number(parts[1]) * 1_000_000_000 + Number((parts[2] ?? '').padEnd(9, '0'));
}

const UNITS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `90s`, `15m`, `24h`, `30d` in milliseconds. */
export function durationOption(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const parts = /^(\d+)([smhd])$/.exec(text);
  if (parts === null) throw new UsageError(`--${name} must be a duration such as 90s, 15m, 24h or 30d, not '${text}'`);
  return Number(parts[1]) * (UNITS[parts[2] as string] as number);
}
