import { cleanFilename } from '@baobab/core/domain/file.ts';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { attachmentHeader, parseByteRange } from './route.ts';

it('gives a header of one line that decodes to the name again', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (sent) => {
      const name = cleanFilename(sent);
      const header = attachmentHeader(name);
      expect(header).toMatch(/^[\x20-\x7e]+$/);
      const parts = /^attachment; filename="([^"\\]*)"; filename\*=UTF-8''([A-Za-z0-9%._~!-]*)$/.exec(header);
      expect(decodeURIComponent(parts?.[2] ?? '')).toBe(name);
    }),
  );
});

it('reads one range of bytes', () => {
  expect(parseByteRange('bytes=0-4', 10)).toEqual({ start: 0, end: 4 });
  expect(parseByteRange('bytes=5-', 10)).toEqual({ start: 5, end: 9 });
  expect(parseByteRange('bytes=-3', 10)).toEqual({ start: 7, end: 9 });
  expect(parseByteRange('bytes=-30', 10)).toEqual({ start: 0, end: 9 });
  expect(parseByteRange('BYTES=8-100', 10)).toEqual({ start: 8, end: 9 });
});

it('reports ranges outside of the file', () => {
  expect(parseByteRange('bytes=10-', 10)).toBe('unsatisfiable');
  expect(parseByteRange('bytes=0-0', 0)).toBe('unsatisfiable');
  expect(parseByteRange('bytes=-0', 10)).toBe('unsatisfiable');
});

it('ignores headers that are not one range of bytes', () => {
  for (const header of [undefined, '', 'bytes=', 'bytes=-', 'bytes=5-2', 'bytes=0-1,3-4', 'items=0-1', 'bytes=a-b']) {
    expect(parseByteRange(header, 10), String(header)).toBeUndefined();
  }
});
