import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { StoreUnavailableError } from '../../packages/core/src/errors/store-unavailable.ts';
import type { ResponseRepository } from '../../packages/core/src/ports/responses.ts';
import type { Store } from '../../packages/server/src/adapters/store.ts';
import { createMetering } from '../../packages/server/src/metering/metering.ts';
import { createResponseRunner, type ResponseExecutor } from '../../packages/server/src/services/responses/runner.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { account, apiKey } from './key-fixtures.ts';

const LEASE_MS = 15_000;
const away = () => Promise.reject(new StoreUnavailableError('the connection broke'));

/** Background responses run to their end and are billed once, whatever happens to their process or the store. */
export function backgroundRunsContract(name: string, open: () => Promise<Store>): void {
  describe(`runs of background responses: ${name}`, () => {
    let store: Store;
    const clock = { time: 1_000_000, now: () => clock.time };
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    async function queue(id: string): Promise<string> {
      const accountId = `acct_${id}`;
      await store.accounts.create(account({ id: accountId, name: accountId }), someEntry());
      await store.responses.create(
        {
          id: `resp_${id}`,
          accountId,
          keyId: 'key_1',
          previousId: null,
          conversationId: null,
          status: 'queued',
          background: true,
          createdAt: clock.time,
          expiresAt: clock.time + 86_400_000,
          input: '[]',
          content: '{}',
        },
        { quota: { items: 0, bytes: 0 }, request: '{}' },
      );
      return accountId;
    }

    const ended = async (accountId: string, id: string) => {
      for (;;) {
        const response = await store.responses.get(accountId, id);
        if (response?.status !== 'queued' && response?.status !== 'in_progress') return response;
        await pause(20);
      }
    };

    /** A process whose answer is its name. Every run is billed, and says whether its bill was new. */
    function startProcess(
      ownerId: string,
      changes: Partial<ResponseRepository> = {},
      before: () => Promise<void> = async () => {},
      execute?: ResponseExecutor['execute'],
    ) {
      const metering = createMetering({ ledger: store.ledger, clock });
      const bills: boolean[] = [];
      const executor: ResponseExecutor = {
        async execute(response, call, record) {
          if (execute !== undefined) return execute(response, call, record);
          await before();
          const { isNew } = await metering.record({
            billingId: call.billingId ?? '',
            requestId: call.requestId,
            accountId: response.accountId,
            keyId: response.keyId,
            model: 'acme/chat',
            version: '2026-01-01',
            region: 'local',
            endpoint: call.endpoint,
            used: { promptTokens: 1, completionTokens: 1, cacheReadTokens: 0, audioSeconds: 0 },
            pricing: {
              promptPerMillion: null,
              completionPerMillion: null,
              cacheReadPerMillion: null,
              audioPerMinute: null,
            },
            status: 200,
            durationMs: 1,
          });
          bills.push(isNew);
          return { status: 'completed', content: JSON.stringify(ownerId) };
        },
        failed: () => ({ status: 'failed', content: '"failed"' }),
      };
      const runner = createResponseRunner({
        responses: { ...store.responses, ...changes },
        executor,
        eventLog: { record: async () => true, changed() {} },
        authority: { principal: async () => ({ account: account(), key: apiKey() }) },
        settings: { backgroundConcurrency: 1 },
        identity: { ownerId, leaseMs: LEASE_MS, alone: false, startedAt: 0 },
        clock: { ...clock, now: () => clock.now(), isSure: () => true },
        logger: { info() {}, warn() {}, error() {} },
        storeWaitMs: 0,
      });
      runner.start();
      return { runner, bills };
    }

    it('bill once when a process is killed between the bill and the end', async () => {
      const accountId = await queue('killed');
      const atEnd = Promise.withResolvers<void>();
      const revival = Promise.withResolvers<void>();
      const killed = startProcess(`${name} killed`, {
        async end(...args) {
          atEnd.resolve();
          await revival.promise;
          return store.responses.end(...args);
        },
      });
      await atEnd.promise;
      clock.time += LEASE_MS + 1;
      const heir = startProcess(`${name} heir`);
      expect(await ended(accountId, 'resp_killed')).toMatchObject({ content: JSON.stringify(`${name} heir`) });
      expect([killed.bills, heir.bills]).toEqual([[true], [false]]);
      // It was not dead but slow, and must change nothing.
      revival.resolve();
      await Promise.all([killed.runner.stop(0), heir.runner.stop(0)]);
      expect(await ended(accountId, 'resp_killed')).toMatchObject({ content: JSON.stringify(`${name} heir`) });
    });

    it('end as cancelled only if the client has cancelled them, not when another process has taken them over', async () => {
      const reasons: unknown[] = [];
      const started = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const hang: ResponseExecutor['execute'] = (_response, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            reasons.push(signal.reason.code);
            reject(signal.reason);
          });
          started.shift()?.resolve();
        });
      const [first, second] = started.map(({ promise }) => promise);
      // The one that is not alive does not look for cancellations.
      const slow = startProcess(`${name} slow`, { active: async (ids) => new Set(ids) }, undefined, hang);
      const accountId = await queue('hanging');
      slow.runner.wake();
      await first;
      clock.time += LEASE_MS + 1;
      const heir = startProcess(`${name} next`, {}, undefined, hang);
      await second;
      await slow.runner.renewLeases(clock.time + LEASE_MS);
      expect(reasons).toEqual(['model_unavailable']);
      await store.responses.cancel(accountId, 'resp_hanging', '{}');
      await heir.runner.renewLeases(clock.time + LEASE_MS);
      expect(reasons).toEqual(['model_unavailable', 'client_cancelled']);
      await Promise.all([slow.runner.stop(0), heir.runner.stop(0)]);
    });

    it('are stored when the store is back, without another run', async () => {
      const accountId = await queue('away');
      let failures = 5;
      const process = startProcess(`${name} waiting`, {
        end: (...args) => (failures-- > 0 ? away() : store.responses.end(...args)),
      });
      expect(await ended(accountId, 'resp_away')).toMatchObject({ status: 'completed' });
      expect(process.bills).toEqual([true]);
      await process.runner.stop(0);
    });

    it('go on after outages of the store, however many there are', async () => {
      const accountId = await queue('outages');
      let failures = 5;
      const release: ResponseRepository['release'] = async (...args) => {
        await store.responses.release(...args);
        clock.time += 2_000;
      };
      const process = startProcess(`${name} unlucky`, { release }, async () => {
        if (failures-- > 0) await away();
      });
      expect(await ended(accountId, 'resp_outages')).toMatchObject({ status: 'completed' });
      expect(process.bills).toEqual([true]);
      await process.runner.stop(0);
    });
  });
}
