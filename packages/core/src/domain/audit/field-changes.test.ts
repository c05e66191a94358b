import { describe, expect, it } from 'vitest';
import { fieldChanges, initialFields } from './field-changes.ts';

describe('field changes', () => {
  it('name what differs, with its old and its new value', () => {
    const before = { rpm: 60, tpm: null, models: ['a/*'], zero: false, name: 'x' };
    expect(fieldChanges(before, { rpm: null, tpm: null, models: ['a/*', 'b/*'], zero: true, name: undefined })).toEqual(
      [
        { field: 'rpm', before: 60, after: null },
        { field: 'models', before: ['a/*'], after: ['a/*', 'b/*'] },
        { field: 'zero', before: false, after: true },
      ],
    );
    expect(fieldChanges(before, before)).toEqual([]);
  });

  it('of something new leave out what is not set', () => {
    expect(initialFields({ rpm: 0, tpm: null, models: [], zero: false, name: undefined })).toEqual([
      { field: 'rpm', before: null, after: 0 },
    ]);
  });

  it('cut long texts and lists, and keep the items that differ', () => {
    const long = Array.from({ length: 100 }, (_, index) => `${index}-${'x'.repeat(197)}`);
    const change = fieldChanges({ models: long }, { models: [...long, 'new/*'] });
    expect(change).toEqual([{ field: 'models', before: expect.any(Array), after: expect.any(Array) }]);
    const after = change.flatMap((each) => each.after as string[]);
    expect([after[0], after.at(-1)]).toEqual(['new/*', '… and 90 more']);
    expect(JSON.stringify(fieldChanges({}, { name: 'b'.repeat(5_000) })).length).toBeLessThan(300);
    expect(JSON.stringify(change).length).toBeLessThan(4_500);
  });
});
