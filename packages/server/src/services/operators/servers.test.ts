import type { ServerHeartbeat } from '@baobab/core/ports/servers.ts';
import { expect, it } from 'vitest';
import { createReadiness, createServers } from './servers.ts';

function setUp() {
  const state = { now: 1_000, reasons: [] as string[], shortcomings: [] as string[] };
  const clock = { now: () => state.now, machineAheadMs: () => 90_000 };
  const readiness = createReadiness({
    unready: async () => state.reasons,
    degraded: () => state.shortcomings,
    clock,
  });
  return { state, clock, readiness };
}

it('says since when each problem is there, although its numbers change', async () => {
  const { state, readiness } = setUp();
  expect(await readiness()).toEqual({ readiness: 'ready', problems: [] });
  state.shortcomings = ['Redis does not answer'];
  expect(await readiness()).toMatchObject({ readiness: 'degraded' });
  state.now = 2_000;
  state.reasons = ['the disk has 17 bytes free'];
  await readiness();
  state.now = 3_000;
  state.reasons = ['the disk has 12 bytes free'];
  expect(await readiness()).toEqual({
    readiness: 'not ready',
    problems: [
      { reason: 'the disk has 12 bytes free', since: 2_000 },
      { reason: 'Redis does not answer', since: 1_000 },
    ],
  });
  state.reasons = [];
  await readiness();
  state.now = 4_000;
  state.reasons = ['the disk has 12 bytes free'];
  expect((await readiness()).problems[0]).toMatchObject({ since: 4_000 });
});

it('calls a server gone that was not seen for 15 s, and forgets it after an hour', async () => {
  const { state, clock, readiness } = setUp();
  const rows = new Map<string, ServerHeartbeat>();
  const forgotten: number[] = [];
  const servers = createServers({
    servers: {
      async beat(heartbeat, forgetBefore) {
        rows.set(heartbeat.id, heartbeat);
        forgotten.push(forgetBefore);
      },
      list: async () => [...rows.values()],
      remove: async (id) => void rows.delete(id),
    },
    identity: { ownerId: 'one', startedAt: 500 },
    name: 'machine',
    version: '0.1.0',
    commit: null,
    readiness,
    clock,
  });
  state.now = 5_000_000;
  await servers.beat();
  expect(forgotten).toEqual([1_400_000]);
  expect(await servers.list()).toEqual([
    {
      ...{ id: 'one', name: 'machine', version: '0.1.0', commit: null, startedAt: 500 },
      ...{ seenAt: 5_000_000, status: 'ready', problems: [], clockAheadMs: 90_000 },
    },
  ]);
  state.now += 15_001;
  expect(await servers.list()).toMatchObject([{ status: 'gone' }]);
  await servers.leave();
  expect(await servers.list()).toEqual([]);
});
