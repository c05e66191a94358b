import { describe, expect, it } from 'vitest';
import { createRestartPolicy } from './restart-policy.ts';

const settings = {
  crashLimit: 3,
  windowMs: 60_000,
  firstDelayMs: 100,
  maxDelayMs: 1_000,
  cooldownMs: 30_000,
  maxCooldownMs: 100_000,
};

describe('restart policy', () => {
  it('waits twice as long after each crash in a row, up to a limit', () => {
    const policy = createRestartPolicy({ ...settings, crashLimit: 100 });
    const delays = [1, 2, 3, 4, 5, 6].map((inARow) => policy.crashed(0, inARow));
    expect(delays.map((verdict) => verdict.action === 'restart' && verdict.delayMs)).toEqual([
      100, 200, 400, 800, 1_000, 1_000,
    ]);
  });

  it('gives up at the third crash within a minute', () => {
    const policy = createRestartPolicy(settings);
    policy.crashed(0, 1);
    policy.crashed(1_000, 2);
    expect(policy.crashed(2_000, 3)).toEqual({ action: 'give-up', cooldownMs: 30_000, crashes: 3 });
  });

  it('does not give up when crashes are rare or answers lie between them', () => {
    const policy = createRestartPolicy(settings);
    for (const at of [0, 50_000, 100_000, 150_000]) expect(policy.crashed(at, 1).action).toBe('restart');
    policy.succeeded();
    policy.crashed(150_100, 1);
    expect(policy.crashed(150_200, 2).action).toBe('restart');
  });

  it('ends a trial at the first crash and waits longer each time, until an answer ends the story', () => {
    const policy = createRestartPolicy({ ...settings, crashLimit: 1 });
    const cooldowns = [1, 2, 3].map((n) => policy.crashed(n * 200_000, 1));
    expect(cooldowns.map((verdict) => verdict.action === 'give-up' && verdict.cooldownMs)).toEqual([
      30_000, 60_000, 100_000,
    ]);
    policy.succeeded();
    expect(policy.crashed(900_000, 1)).toMatchObject({ cooldownMs: 30_000 });
  });
});
