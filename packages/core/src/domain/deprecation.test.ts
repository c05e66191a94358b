import { describe, expect, it } from 'vitest';
import { earliestRemoval, noticeProblem, retirementProblem, versionState } from './deprecation.ts';

const at = (text: string) => Date.parse(text);

describe('the state of a version', () => {
  const now = at('2026-11-15T12:00:00Z');
  it.each([
    [null, null, 'current'],
    ['2027-03-01T00:00:00.000Z', null, 'deprecated'],
    ['2026-01-01T00:00:00.000Z', null, 'deprecated'],
    ['2026-11-01T00:00:00.000Z', '2026-11-15T12:00:00.000Z', 'retired'],
    ['2026-11-01T00:00:00.000Z', '2026-11-15T12:00:00.001Z', 'deprecated'],
  ] as const)('deprecated %s, retired %s: %s', (deprecated, retired, state) => {
    const dates = { deprecatedAt: deprecated && at(deprecated), retiredAt: retired && at(retired) };
    expect(versionState(dates, now)).toBe(state);
  });
});

describe('notice', () => {
  it('is 90 full days: counted from midnight to midnight', () => {
    const midnight = at('2026-11-15T00:00:00Z');
    expect(noticeProblem('2027-02-13', midnight)).toBeUndefined();
    expect(noticeProblem('2027-02-12', midnight)).toBe(
      '2027-02-12 leaves less than 90 days of notice; the earliest date is 2027-02-13',
    );
  });

  it('does not round a started day up', () => {
    const justAfter = at('2026-11-15T00:00:00.001Z');
    expect(noticeProblem('2027-02-13', justAfter)).toContain('the earliest date is 2027-02-14');
    expect(earliestRemoval(justAfter)).toBe('2027-02-14');
  });

  it('always accepts the date that it proposes', () => {
    for (let hour = 0; hour < 24 * 40; hour += 7) {
      const notice = at('2026-12-20T00:00:00Z') + hour * 3_600_000;
      expect(noticeProblem(earliestRemoval(notice), notice)).toBeUndefined();
    }
  });

  it.each(['2027-02-30', 'soon', ''])('refuses %j, which is no date', (text) => {
    expect(noticeProblem(text, at('2026-11-15T00:00:00Z'))).toContain('is not a date of the form YYYY-MM-DD');
  });
});

describe('retirement', () => {
  const deprecatedAt = at('2027-03-01');
  it('is refused without an announcement and before the date, and possible from the date on', () => {
    expect(retirementProblem({ deprecatedAt: null, retiredAt: null }, at('2027-03-01'))).toContain('never deprecated');
    expect(retirementProblem({ deprecatedAt, retiredAt: null }, deprecatedAt - 1)).toContain(
      '2027-03-01T00:00:00.000Z has not come yet',
    );
    expect(retirementProblem({ deprecatedAt, retiredAt: null }, deprecatedAt)).toBeUndefined();
  });
});
