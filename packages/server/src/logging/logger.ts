import { printable, printableLine } from '@baobab/core/domain/control-characters.ts';
import { maskKeys } from '@baobab/core/errors/key-mask.ts';
import type { Scrub } from '@baobab/core/runtime/secret-scrubber.ts';
import pino, { type DestinationStream, type Logger } from 'pino';

export interface LogSettings {
  level: string;
  format: 'auto' | 'json' | 'pretty';
  /** Hides secrets wherever they turn up. */
  scrub?: Scrub | undefined;
  /** Its number is on every line. */
  worker?: number | undefined;
}

const LEVELS: Record<number, string> = { 10: 'trace', 20: 'debug', 30: 'info', 40: 'warn', 50: 'error', 60: 'fatal' };
/** Shown elsewhere in the line, or the same on every line. */
const QUIET = new Set(['level', 'time', 'pid', 'hostname', 'msg', 'err']);

/** A line for people: time, level, message, then the fields. */
export function prettyLine(line: string): string {
  const { level, time, msg, err, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const clock = new Date(Number(time)).toISOString().slice(11, 23);
  const shown = Object.entries(fields)
    .filter(([name, value]) => !QUIET.has(name) && value !== null)
    .map(
      ([name, value]) =>
        `${name}=${typeof value === 'string' ? printableLine(value) : printable(JSON.stringify(value))}`,
    )
    .join(' ');
  const trouble =
    err === undefined
      ? ''
      : `\n  ${printable((err as { stack?: string; message?: string }).stack ?? JSON.stringify(err))}`;
  return `${clock} ${(LEVELS[Number(level)] ?? String(level)).padEnd(5)} ${printableLine(String(msg ?? ''))}${shown === '' ? '' : `  ${shown}`}${trouble}\n`;
}

const TEXT = String.raw`"(?:[^"\\]|\\.)*"`;
/**
 * A second line of defence: log lines should never contain these. They are found in the text of a line, because a search in its fields takes twice
 * as long as everything else about it.
 */
const SECRETS = new RegExp(
  String.raw`"(authorization|secret|apiKey|hfToken)":(?:${TEXT}|[[{](?:[^[\]{}"]|${TEXT})*[\]}])`,
  'g',
);
const maskFields = (line: string): string => line.replace(SECRETS, '"$1":"[hidden]"');

const destination = (out: { write(line: string): unknown }, format = (line: string) => line): DestinationStream => ({
  write: (line) => out.write(format(maskFields(maskKeys(line)))),
});

/** `out` is for tests. The default writes synchronously, so that no line is lost when the process ends. */
export function createLogger(settings: LogSettings, out?: NodeJS.WritableStream & { isTTY?: boolean }): Logger {
  const forPeople =
    settings.format === 'pretty' || (settings.format === 'auto' && (out ?? process.stderr).isTTY === true);
  const options = {
    level: settings.level,
    base: settings.worker === undefined ? null : { worker: settings.worker },
    // The text of errors comes from many places, upstreams among them.
    hooks: { streamWrite: settings.scrub ?? ((line) => line) },
  };
  if (forPeople) return pino(options, destination(out ?? process.stderr, prettyLine));
  return pino(options, destination(out ?? pino.destination({ fd: 2, sync: true })));
}
