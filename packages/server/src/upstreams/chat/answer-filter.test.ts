import { createSecretScrubber } from '@baobab/core/runtime/secret-scrubber.ts';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createStreamScrubber } from './answer-filter.ts';

const SECRETS = ['sk-secret-1234', 'sk-secret-12345678', 'aab-"aab"-aabc'];

it('hides secrets however the text is cut', () => {
  const parts = fc.array(fc.constantFrom(...SECRETS, 'sk-', 'sk-secret-', 'aa', 'b-', ' and ', 's', '"', '12'), {
    maxLength: 12,
  });
  fc.assert(
    fc.property(parts, fc.array(fc.nat(80), { maxLength: 12 }), (pieces, cuts) => {
      const text = pieces.join('');
      const stream = createStreamScrubber(SECRETS);
      const at = [0, ...cuts.map((cut) => Math.min(cut, text.length)).sort((a, b) => a - b), text.length];
      const read = at.slice(1).map((end, index) => stream.push(text.slice(at[index], end)));
      const whole = read.join('') + stream.end();
      for (const secret of SECRETS) expect(whole).not.toContain(secret);
      // Nothing else is lost. A secret that continues another one is hidden in part.
      if (createSecretScrubber(SECRETS)(text) === text) expect(whole).toBe(text);
    }),
    { numRuns: 1_000 },
  );
});

it('passes on at once what cannot be part of a secret', () => {
  const stream = createStreamScrubber(SECRETS);
  expect([stream.push('risk of a sk'), stream.holds]).toEqual(['risk of a ', true]);
  expect([stream.push('ill'), stream.holds, stream.hidden]).toEqual(['skill', false, 0]);
  expect([stream.push('sk-secret-'), stream.push('1234.'), stream.hidden]).toEqual(['', '[hidden].', 1]);
});
