import type { Session } from '@baobab/core/ports/sessions.ts';
import { beforeEach, describe, expect, it } from 'vitest';
import { account, apiKey } from '../../../../../test/contracts/key-fixtures.ts';
import { createSessions, type SessionsService } from './sessions.ts';

const HOUR = 3_600_000;
const principal = { account: account(), key: apiKey() };
let now = 0;
/** How far the system's clock was set. */
let clockSetBy = 0;
let stored: Map<string, Session>;
let renewals: number;
let sessions: SessionsService;

beforeEach(() => {
  now = Date.UTC(2026, 10, 16);
  clockSetBy = 0;
  stored = new Map();
  renewals = 0;
  sessions = createSessions({
    sessions: {
      create: async (session) => void stored.set(session.hash, session),
      find: async (hash) => stored.get(hash),
      renew: async (hash, expiresAt) => {
        renewals += 1;
        stored.set(hash, { ...(stored.get(hash) as Session), expiresAt });
      },
      remove: async (hash) => void stored.delete(hash),
      removeExpired: async () => {},
    },
    authentication: { authenticateKey: async () => principal },
    clock: { now: () => now + clockSetBy },
    steadyClock: { now: () => now },
  });
});

describe('a session', () => {
  it('stores no secret', async () => {
    const { secret } = await sessions.start(principal);
    expect(JSON.stringify([...stored])).not.toContain(secret);
    expect(JSON.stringify([...stored])).not.toContain(sessions.csrfToken(secret));
  });

  it('ends an hour after its last request', async () => {
    const { secret } = await sessions.start(principal);
    now += HOUR - 1;
    expect((await sessions.authenticate(secret)).renewed).toBe(true);
    now += HOUR;
    await expect(sessions.authenticate(secret)).rejects.toThrow('This session has ended');
  });

  it('moves its end at most every five minutes', async () => {
    const { secret } = await sessions.start(principal);
    for (let second = 0; second < 600; second += 1) {
      now += 1_000;
      await sessions.authenticate(secret);
    }
    expect(renewals).toBe(2);
  });

  it('ends after twelve hours even if it is used all the time', async () => {
    const { secret } = await sessions.start(principal);
    for (let half = 0; half < 23; half += 1) {
      now += HOUR / 2;
      await sessions.authenticate(secret);
    }
    now += HOUR / 2;
    await expect(sessions.authenticate(secret)).rejects.toThrow('This session has ended');
  });

  it('that ended on another server is refused within a second', async () => {
    const { secret, session } = await sessions.start(principal);
    await sessions.authenticate(secret);
    stored.delete(session.hash);
    now += 999;
    await expect(sessions.authenticate(secret)).rejects.toThrow('This session has ended');
  });

  it('that ended on another server is refused as soon when the clock is set back', async () => {
    const { secret, session } = await sessions.start(principal);
    await sessions.authenticate(secret);
    stored.delete(session.hash);
    now += 999;
    clockSetBy = -HOUR;
    await expect(sessions.authenticate(secret)).rejects.toThrow('This session has ended');
  });
});
