import { describe, expect, it } from 'vitest';
import { UsageError } from './command.ts';
import { countOption, dollarsOption, durationOption, integerOption, parseOptions } from './options.ts';

const parse = (...args: string[]) => parseOptions(args, { rpm: { type: 'string' }, json: { type: 'boolean' } });

describe('options', () => {
  it('may be anywhere, with values after a space or an equals sign', () => {
    const { values, positionals } = parse('--rpm', '5', 'create', '--json', 'ci');
    expect({ ...values }).toEqual({ rpm: '5', json: true });
    expect(positionals).toEqual(['create', 'ci']);
    for (const negative of [['--rpm=-1'], ['--rpm', '-1']]) {
      const { values, positionals } = parse('create', ...negative, '--json', 'ci');
      expect({ ...values }).toEqual({ rpm: '-1', json: true });
      expect(positionals).toEqual(['create', 'ci']);
    }
    expect(parse('--', '--rpm').positionals).toEqual(['--rpm']);
  });

  it.each([
    [['--bogus'], "there is no option '--bogus'; there are --rpm, --json"],
    [['create', '--bogus=5'], "there is no option '--bogus'; there are --rpm, --json"],
    [['--jsn'], "there is no option '--jsn'; did you mean '--json'?"],
    [['-x'], "there is no option '-x'; there are --rpm, --json"],
    [['--constructor'], "there is no option '--constructor'; there are --rpm, --json"],
    [['--rpm'], '--rpm needs a value'],
    [['--rpm', '--json'], "--rpm needs a value, and '--json' starts with a dash; write --rpm=--json to pass it"],
    [['--json=yes'], '--json takes no value'],
  ])('reports %j as an error', (args, message) => {
    expect(() => parse(...args)).toThrow(new UsageError(message));
  });

  it('say which numbers they accept', () => {
    expect(integerOption('rpm', '60')).toBe(60);
    for (const text of ['-1', '0', '1.5', '', 'x', '9'.repeat(16)]) {
      expect(() => integerOption('rpm', text)).toThrow(`--rpm must be a whole number, 1 or more, not '${text}'`);
      expect(() => countOption('limit', text, 200)).toThrow(
        `--limit must be a whole number from 1 to 200, not '${text}'`,
      );
    }
    expect(dollarsOption('monthly-budget', '0')).toBe(0);
    expect(() => dollarsOption('monthly-budget', '-3')).toThrow(
      "--monthly-budget must be an amount in US dollars, 0 or more, such as 25 or 12.50, not '-3'",
    );
    expect(() => durationOption('grace', '60')).toThrow(
      "--grace must be a duration with a unit, such as 90s, 15m or 24h, not '60'",
    );
  });
});
