import { expect, it } from 'vitest';
import { createGrammarTime } from '../generation.ts';

function answer() {
  let nowMs = 0;
  const time = createGrammarTime({ format: { type: 'json_schema', schema: {} } }, () => nowMs);
  const token = (tookMs: number) => {
    time.begin();
    nowMs += tookMs;
    time.end();
  };
  return { time, token };
}
const TOO_SLOW = expect.objectContaining({ status: 422, param: 'format.schema' });

it('ends an answer in which one token takes too long', () => {
  const { token } = answer();
  token(2_900);
  expect(() => token(3_100)).toThrow(TOO_SLOW);
});

it('ends an answer in which many tokens are slow', () => {
  const { token } = answer();
  const all = () => {
    for (let count = 0; count < 100; count++) token(300);
  };
  expect(all).toThrow(TOO_SLOW);
});

it('lets a long answer at the limit of the compiler pass', () => {
  const { time, token } = answer();
  for (let count = 0; count < 5_000; count++) token(60);
  // A token without a grammar.
  time.end();
});
