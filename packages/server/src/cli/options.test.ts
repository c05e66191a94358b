import { describe, expect, it } from 'vitest';
import { UsageError } from './command.ts';
import { integerOption, parseOptions } from './options.ts';

const parse = (...args: string[]) => parseOptions(args, { rpm: { type: 'string' }, json: { type: 'boolean' } });

describe('options', () => {
  it('may be anywhere, with values after a space or an equals sign', () => {
    const { values, positionals } = parse('--rpm', '5', 'create', '--json', 'ci');
    expect({ ...values }).toEqual({ rpm: '5', json: true });
    expect(positionals).toEqual(['create', 'ci']);
    expect(parse('--rpm=-1').values.rpm).toBe('-1');
    expect(parse('--', '--rpm').positionals).toEqual(['--rpm']);
  });

  it.each([
    [['--bogus'], "there is no option '--bogus'"],
    [['create', '--bogus=5'], "there is no option '--bogus'"],
    [['--jsn'], "there is no option '--jsn'; did you mean '--json'?"],
    [['-x'], "there is no option '-x'"],
    [['--constructor'], "there is no option '--constructor'"],
    [['--rpm'], '--rpm needs a value'],
    [['--rpm', '-1'], "--rpm needs a value, and '-1' starts with a dash; write --rpm=-1 to pass it"],
    [['--rpm', '--json'], "--rpm needs a value, and '--json' starts with a dash; write --rpm=--json to pass it"],
    [['--json=yes'], '--json takes no value'],
  ])('reports %j as an error', (args, message) => {
    expect(() => parse(...args)).toThrow(new UsageError(message));
  });

  it('accept only whole, non-negative numbers', () => {
    expect(integerOption('rpm', '60')).toBe(60);
    for (const text of ['-1', '1.5', '', 'x', '9'.repeat(16)]) {
      expect(() => integerOption('rpm', text)).toThrow(`--rpm must be a whole number, not '${text}'`);
    }
  });
});
