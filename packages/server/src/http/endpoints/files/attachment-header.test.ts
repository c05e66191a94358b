import { cleanFilename } from '@baobab/core/domain/file.ts';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { attachmentHeader } from './attachment-header.ts';

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
