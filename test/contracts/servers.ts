import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ServerHeartbeat, ServerRepository } from '../../packages/core/src/ports/servers.ts';

export interface ServersUnderTest {
  servers: ServerRepository;
  close(): Promise<void>;
}

const heartbeat = (id: string, more: Partial<ServerHeartbeat> = {}): ServerHeartbeat => ({
  id,
  name: `machine-${id}`,
  version: '0.1.0',
  commit: null,
  startedAt: 1_000,
  seenAt: 2_000,
  readiness: 'ready',
  problems: [],
  clockAheadMs: 0,
  ...more,
});

/** Every list of servers behaves like this. */
export function serversContract(name: string, open: () => Promise<ServersUnderTest>): void {
  describe(`servers: ${name}`, () => {
    let store: ServersUnderTest;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    it('keeps the last heartbeat of each server, and forgets those that are gone', async () => {
      const { servers } = store;
      await servers.beat(heartbeat('b', { commit: 'abc' }), 0);
      await servers.beat(heartbeat('a'), 0);
      const problems = [{ reason: 'Redis does not answer', since: 4_000 }];
      const ill = heartbeat('b', {
        commit: 'abc',
        seenAt: 5_000,
        readiness: 'degraded',
        problems,
        clockAheadMs: -90_000,
      });
      await servers.beat(ill, 1_000);
      expect(await servers.list()).toEqual([heartbeat('a'), ill]);
      await servers.beat({ ...ill, seenAt: 9_000 }, 3_000);
      expect(await servers.list()).toEqual([{ ...ill, seenAt: 9_000 }]);
      await servers.remove('b');
      expect(await servers.list()).toEqual([]);
    });
  });
}
