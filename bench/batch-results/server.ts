import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from '../../src/adapters/store.ts';
import type { BatchSlice } from '../../src/ports/batch-slices.ts';
import { randomRow } from '../random-row.ts';

/** What the parent tells a server to do. */
export interface Work {
  root: string;
  url: string;
  server: number;
  ids: readonly string[];
}

/** What a server reports when no slice is left. */
export interface Report {
  recordMs: number[];
  claimMs: number[];
  lines: number;
  /** Calls that gave up after 10 s of conflicts. Their lines run again. */
  gaveUp: number;
}

const LEASE_MS = 15_000;
const RENEW_MS = 500;
const POLL_MS = 500;
const ACCOUNT = 'acct_1';

/** Does to the store what a server does: bills and records the lines of the slices that it claims, polls, renews and bills other requests. */
async function serve({ root, url, server, ids }: Work): Promise<Report> {
  const { openStore } = (await import(`${root}/src/adapters/store.ts`)) as typeof import('../../src/adapters/store.ts');
  const store = await openStore({ kind: 'postgres', url });
  process.send?.('ready');
  await once(process, 'message');
  const report: Report = { recordMs: [], claimMs: [], lines: 0, gaveUp: 0 };
  const over = new AbortController();
  const held = new Map(ids.map((id) => [id, new Set<number>()]));
  const ownerId = `server-${server}`;
  const others = [poll(), renew(), billRequests()];
  await Promise.all(ids.map(work));
  over.abort();
  await Promise.all(others);
  await store.close();
  return report;

  async function timed<T>(into: number[], call: () => Promise<T>): Promise<T> {
    const start = performance.now();
    try {
      return await call();
    } catch (error) {
      report.gaveUp += 1;
      throw error;
    } finally {
      into.push(performance.now() - start);
    }
  }

  async function every(ms: number, call: () => Promise<unknown>): Promise<void> {
    while (!over.signal.aborted) {
      await call().catch(() => {});
      await sleep(ms, undefined, { signal: over.signal }).catch(() => {});
    }
  }

  function poll(): Promise<void> {
    const search = { limit: 8, perAccount: 2, holding: ids };
    return every(POLL_MS, async () => {
      const now = Date.now();
      await store.batches.claim({ ...search, ownerId, now, leaseUntil: now + LEASE_MS });
      await store.batchSlices.joinable({ ...search, now, unserved: false });
    });
  }

  function renew(): Promise<void> {
    return every(RENEW_MS, () =>
      Promise.all(
        ids.map((id) => store.batchSlices.renew({ id, ownerId }, [...(held.get(id) ?? [])], Date.now() + LEASE_MS)),
      ),
    );
  }

  function billRequests(): Promise<void> {
    let count = 0;
    return every(2, () => store.ledger.appendFresh([rowOf(`req_${server}_${count++}`)]));
  }

  function rowOf(billingId: string) {
    const row = randomRow(0, { time: Date.now(), accountId: ACCOUNT, keyId: 'key_1', model: 'acme/one' });
    return { ...row, billingId, requestId: billingId };
  }

  /** As the runner does: groups of results one after the other, and after a failure all slices are given back. */
  async function work(id: string): Promise<void> {
    const owned = { id, ownerId };
    const own = held.get(id) ?? new Set();
    for (;;) {
      try {
        const now = Date.now();
        const claim = { now, until: now + LEASE_MS, holding: [...own] };
        const slice = await timed(report.claimMs, () => store.batchSlices.claim(owned, claim));
        if (slice === undefined) return;
        own.add(slice.firstLine);
        await runLines(store, slice);
        own.delete(slice.firstLine);
      } catch {
        own.clear();
        await store.batchSlices.release(owned).catch(() => {});
      }
    }

    async function runLines({ batchSlices, batches, ledger }: Store, slice: BatchSlice): Promise<void> {
      const { firstLine, lastLine } = slice;
      const done = new Set(
        await batches.recordedLines(id, { after: firstLine - 1, last: lastLine, limit: lastLine - firstLine + 1 }),
      );
      const numbers = Array.from({ length: lastLine - firstLine + 1 }, (_, index) => firstLine + index);
      const open = numbers.filter((line) => !done.has(line));
      const middle = Math.ceil(open.length / 2);
      for (const [group, isLast] of [
        [open.slice(0, middle), false],
        [open.slice(middle), true],
      ] as const) {
        await ledger.append(group.map((line) => rowOf(`${id}:${line}`)));
        const lines = group.map((line) => ({ line, failed: false, blobKey: 'batches/x', offset: line, bytes: 1 }));
        const finished = isLast ? [firstLine] : [];
        await timed(report.recordMs, () =>
          batchSlices.record(owned, { lines, slices: [firstLine], finished, now: Date.now() }),
        );
        report.lines += lines.length;
      }
    }
  }
}

process.once('message', (work: Work) => {
  void serve(work).then(
    (report) => process.send?.(report, () => process.exit(0)),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
});
