import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { account, apiKey } from '../../../../../test/contracts/key-fixtures.ts';
import { admitted, refused, setUp } from '../testing/limits-setup.ts';

describe('rate limits', () => {
  it('admits a thousand requests at once up to the limit, and tells the others when to retry', async () => {
    const { admit, clock } = setUp();
    const answers = await Promise.all(Array.from({ length: 1_000 }, () => admit()));
    expect(answers.filter((answer) => answer.admitted)).toHaveLength(600);
    const error = await refused(admit());
    expect(error).toMatchObject({ code: 'rpm_exceeded', status: 429, type: 'rate_limit_error', retryAfterSeconds: 1 });
    clock.time += 1_000;
    expect(
      (await Promise.all(Array.from({ length: 20 }, () => admit()))).filter((answer) => answer.admitted),
    ).toHaveLength(10);
  });

  it('shows limit, remaining and reset, admitted or not', async () => {
    const { admit } = setUp({ key: { rpm: 2, tpm: 100 } });
    expect(await admit({ estimatedTokens: 40 })).toMatchObject({
      requests: { limit: 2, remaining: 1, resetMs: 30_000 },
      tokens: { limit: 100, remaining: 60, resetMs: 24_000 },
    });
    await admit({ estimatedTokens: 40 });
    expect(await admit({ estimatedTokens: 40 })).toMatchObject({
      admitted: false,
      requests: { limit: 2, remaining: 0, resetMs: 60_000 },
      tokens: { limit: 100, remaining: 20 },
    });
  });

  it('shows the levels of a caller and takes nothing', async () => {
    const { admit, status, clock } = setUp({ key: { rpm: 2, tpm: 100, concurrency: 1 } });
    const untouched = {
      requests: { limit: 2, remaining: 2, resetMs: 0 },
      tokens: { limit: 100, remaining: 100, resetMs: 0 },
    };
    expect(await status()).toEqual(untouched);
    await admit({ estimatedTokens: 40 });
    clock.time += 6_000;
    const later = {
      requests: { limit: 2, remaining: 1, resetMs: 24_000 },
      tokens: { limit: 100, remaining: 70, resetMs: 18_000 },
    };
    expect(await status()).toEqual(later);
    expect(await status()).toEqual(later);
    expect(await status({ region: 'eu-1' })).toEqual(untouched);
  });

  it('has one bucket for each key, model and region', async () => {
    const { admit } = setUp({ key: { rpm: 1 } });
    await admitted(admit());
    await refused(admit());
    await admitted(admit({ model: 'acme/two' }));
    await admitted(admit({ region: 'eu-1' }));
    await admitted(admit({ principal: { account: account(), key: apiKey({ id: 'key_other', rpm: 1 }) } }));
  });

  it('counts the limits of an account over all its keys and regions', async () => {
    const limited = { rpm: 3, tpm: 100 };
    const { admit } = setUp({ account: limited });
    const other = {
      account: account(limited),
      key: apiKey({ id: 'key_other', rpm: null, tpm: null, concurrency: null }),
    };
    await admitted(admit());
    await admitted(admit({ principal: other }));
    expect(await admitted(admit({ region: 'eu-1', estimatedTokens: 70 }))).toMatchObject({
      requests: { limit: 3, remaining: 0 },
      tokens: { limit: 100, remaining: 10 },
    });
    expect(await refused(admit({ principal: other, estimatedTokens: 0 }))).toMatchObject({
      code: 'rpm_exceeded',
      message:
        'This account has used its limit of 3 requests per minute for this model, over all its keys. Try again in 20 seconds.',
    });
    await admitted(admit({ model: 'acme/two' }));
  });

  it("holds a key's own limits inside those of its account", async () => {
    const { admit } = setUp({ account: { rpm: 3 }, key: { rpm: 2 } });
    const other = { account: account({ rpm: 3 }), key: apiKey({ id: 'key_other', rpm: 2, concurrency: null }) };
    await admitted(admit());
    await admitted(admit());
    expect(await refused(admit())).toMatchObject({
      message: expect.stringContaining('This key has used its limit of 2 requests'),
    });
    expect(await admitted(admit({ principal: other }))).toMatchObject({ requests: { limit: 3, remaining: 0 } });
    expect(await refused(admit({ principal: other }))).toMatchObject({
      message: expect.stringContaining('This account has used its limit of 3 requests'),
    });
  });

  it('multiplies the limits of an account for lines of batches, and counts them apart', async () => {
    const { admit } = setUp({ account: { rpm: 1 } });
    await admitted(admit());
    await admitted(admit({ batchFactor: 2 }));
    await admitted(admit({ batchFactor: 2 }));
    await refused(admit({ batchFactor: 2 }));
  });

  it('names the limit that lasts longest', async () => {
    const { admit } = setUp({ key: { rpm: 60, tpm: 60 } });
    await admitted(admit({ estimatedTokens: 60 }));
    expect(await refused(admit({ estimatedTokens: 30 }))).toMatchObject({
      code: 'tpm_exceeded',
      retryAfterSeconds: 30,
      message:
        'This request needs about 30 tokens, but this key has 0 of its 60 tokens per minute left for this model and region. ' +
        'Try again in 30 seconds.',
    });
  });

  it('settles tokens with the real count, once', async () => {
    const { admit } = setUp({ key: { tpm: 100 } });
    const first = await admitted(admit({ estimatedTokens: 100 }));
    await first.settle({ tokens: 30 });
    await first.settle({ tokens: 0 });
    expect((await admit({ estimatedTokens: 0 })).tokens.remaining).toBe(70);
  });

  it('counts a request as ended once, however often it is settled', async () => {
    const { admit } = setUp({ key: { concurrency: 1 } });
    const first = await admitted(admit());
    expect(await refused(admit())).toMatchObject({ code: 'concurrency_exceeded', retryAfterSeconds: 1 });
    await first.settle({ tokens: 0 });
    await first.settle({ tokens: 0 });
    await admitted(admit());
    await refused(admit());
  });

  it('counts running requests of an account over all its keys', async () => {
    const { admit } = setUp({ account: { concurrency: 2 } });
    const other = {
      account: account({ concurrency: 2 }),
      key: apiKey({ id: 'key_other', rpm: null, concurrency: null }),
    };
    const first = await admitted(admit());
    await admitted(admit({ principal: other, model: 'acme/two' }));
    expect(await refused(admit({ principal: other }))).toMatchObject({
      code: 'concurrency_exceeded',
      message: 'This account may have 2 requests running at a time. Wait until one ends.',
    });
    await admitted(admit({ batchFactor: 1 }));
    await first.settle({ tokens: 0 });
    await admitted(admit({ principal: other }));
  });

  it('passes when Retry-After is over, and not a second earlier', async () => {
    const step = fc.record({ elapsedMs: fc.nat(20_000), tokens: fc.nat(400), used: fc.nat(500) });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 30 }), fc.array(step, { maxLength: 40 }), async (rpm, steps) => {
        const { admit, clock } = setUp({ key: { rpm, tpm: 300 } });
        for (const { elapsedMs, tokens, used } of steps) {
          clock.time += elapsedMs;
          const answer = await admit({ estimatedTokens: tokens });
          if (answer.admitted) {
            await answer.settle({ tokens: used });
            continue;
          }
          const waitMs = (answer.error.retryAfterSeconds ?? 0) * 1_000;
          expect(waitMs).toBeGreaterThanOrEqual(1_000);
          clock.time += waitMs - 1_000;
          const early = await admit({ estimatedTokens: tokens });
          if (waitMs > 1_000) expect(early.admitted).toBe(false);
          clock.time += 1_000;
          const late = early.admitted ? early : await admitted(admit({ estimatedTokens: tokens }));
          if (late.admitted) await late.settle({ tokens: used });
        }
      }),
    );
  });
});
