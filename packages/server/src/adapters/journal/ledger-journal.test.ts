import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LedgerRow } from '@baobab/core/ports/ledger.ts';
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { ledgerRow } from '../../../../../test/contracts/ledger.ts';
import { createJournalReader, type LedgerJournalOptions, openLedgerJournal } from './ledger-journal.ts';

let files = 0;
const freshPath = () => join(directory, `${files++}`);
const directory = await mkdtemp(join(tmpdir(), 'baobab-journal-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

/** A ledger and its reports that take rows when the test allows it. */
function fakeLedger() {
  const rows = new Map<string, LedgerRow>();
  const state = { open: Promise.resolve(), failure: undefined as Error | undefined, commits: 0 };
  const append = async (more: readonly LedgerRow[]) => {
    await state.open;
    if (state.failure) throw state.failure;
    state.commits += 1;
    return more.map((row) => {
      const isNew = !rows.has(row.billingId);
      if (isNew) rows.set(row.billingId, row);
      return isNew;
    });
  };
  return {
    rows,
    state,
    /** Commits wait until the returned function is called. */
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      state.open = promise;
      return resolve;
    },
    ledger: { append, appendFresh: () => Promise.reject(new Error('rows are appended by their billing id')) },
    usage: { query: async () => [], spentNanoUsd: async () => BigInt(rows.size), batchBills: async () => [] },
  };
}

const NEVER_MS = 1_000_000;

async function openOver(
  { ledger, usage }: ReturnType<typeof fakeLedger>,
  path: string,
  options: Partial<LedgerJournalOptions> = {},
) {
  const journal = await openLedgerJournal({ ledger, usage, path, synced: true, applyAfterMs: NEVER_MS, ...options });
  return {
    ...journal,
    append: (...rows: LedgerRow[]) => journal.ledger.appendFresh(rows),
    spent: () => journal.usage.spentNanoUsd({ accountId: 'acct_1', start: 0, end: 1 }),
  };
}

describe('ledger journal', () => {
  it('acknowledges rows before the ledger has them, and includes them in every report', async () => {
    const own = fakeLedger();
    const journal = await openOver(own, freshPath());
    const open = own.hold();
    await Promise.all([journal.append(ledgerRow()), journal.append(ledgerRow(), ledgerRow())]);
    expect(own.rows.size).toBe(0);
    const spent = journal.spent();
    await journal.append(ledgerRow());
    open();
    expect(await spent).toBeGreaterThanOrEqual(3n);
    expect(await journal.spent()).toBe(4n);
    await journal.close();
  });

  it('moves rows into the ledger by itself, many in one commit', async () => {
    const own = fakeLedger();
    const journal = await openOver(own, freshPath(), { applyAfterMs: 1 });
    await Promise.all(Array.from({ length: 50 }, () => journal.append(ledgerRow())));
    await expect.poll(() => own.rows.size).toBe(50);
    expect(own.state.commits).toBeLessThan(50);
    await journal.close();
  });

  it('commits at once when there are enough rows, unless the ledger fails', async () => {
    const own = fakeLedger();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const onError = vi.fn();
    const journal = await openOver(own, freshPath(), { onError });
    const append = (rows: number) => Promise.all(Array.from({ length: rows }, () => journal.append(ledgerRow())));
    await append(99);
    expect(own.rows.size).toBe(0);
    await append(1);
    await expect.poll(() => own.rows.size).toBe(100);
    expect(own.state.commits).toBe(1);
    // Rows beyond these share their commit.
    await journal.append(...Array.from({ length: 170 }, () => ledgerRow()));
    await expect.poll(() => own.rows.size).toBe(270);
    expect(own.state.commits).toBe(2);
    own.state.failure = new Error('disk full');
    await append(150);
    await expect.poll(() => onError).toHaveBeenCalledTimes(1);
    await append(150);
    expect(onError).toHaveBeenCalledTimes(1);
    own.state.failure = undefined;
    await vi.advanceTimersByTimeAsync(1_000);
    await expect.poll(() => own.rows.size).toBe(570);
    await journal.close();
  });

  it('recovers every acknowledged row once after a crash', async () => {
    const own = fakeLedger();
    const path = freshPath();
    const dead = await openOver(own, path);
    own.state.failure = new Error('the ledger is gone');
    const rows = Array.from({ length: 20 }, () => ledgerRow());
    for (const row of rows) await dead.append(row);
    await expect(dead.spent()).rejects.toThrow('gone');
    // These rows go to the other segment.
    const others = [ledgerRow(), ledgerRow()];
    await dead.append(...others);
    own.state.failure = undefined;
    const beside = createJournalReader({ ...own, path });
    expect(await beside.usage.spentNanoUsd({ accountId: 'acct_1', start: 0, end: 1 })).toBe(22n);
    own.rows.clear();
    const next = await openOver(own, path);
    expect([...own.rows.values()]).toEqual(expect.arrayContaining([...rows, ...others]));
    expect(own.rows.size).toBe(22);
    await next.append(ledgerRow());
    expect(await next.spent()).toBe(23n);
    await next.close();
  });

  it('reports a failing ledger and retries', async () => {
    const own = fakeLedger();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const onError = vi.fn();
    const journal = await openOver(own, freshPath(), { applyAfterMs: 50, onError });
    own.state.failure = new Error('disk full');
    await journal.append(ledgerRow());
    await vi.advanceTimersByTimeAsync(50);
    expect(onError).toHaveBeenCalledExactlyOnceWith(own.state.failure);
    await journal.append(ledgerRow());
    own.state.failure = undefined;
    await vi.advanceTimersByTimeAsync(1_000);
    expect(own.rows.size).toBe(2);
    await journal.close();
  });

  it('waits for the ledger when both segments are full, and refuses rows when that fails', async () => {
    const own = fakeLedger();
    const journal = await openOver(own, freshPath(), { segmentBytes: 2_048 });
    const open = own.hold();
    const appends = Array.from({ length: 30 }, () => journal.append(ledgerRow()));
    await appends[0];
    open();
    await Promise.all(appends);
    expect(await journal.spent()).toBe(30n);
    own.state.failure = new Error('disk full');
    const refused = await Promise.allSettled(Array.from({ length: 30 }, () => journal.append(ledgerRow())));
    const taken = refused.filter(({ status }) => status === 'fulfilled').length;
    expect(taken).toBeGreaterThan(0);
    expect(taken).toBeLessThan(30);
    own.state.failure = undefined;
    expect(await journal.spent()).toBe(BigInt(30 + taken));
    await journal.close();
  });

  it('appends rows that are larger than a segment directly', async () => {
    const own = fakeLedger();
    const journal = await openOver(own, freshPath(), { segmentBytes: 1_024 });
    await journal.append(...Array.from({ length: 10 }, () => ledgerRow()));
    expect(own.rows.size).toBe(10);
    await journal.close();
  });

  it('replays many rows in one commit', async () => {
    const own = fakeLedger();
    const path = freshPath();
    const journal = await openOver(own, path);
    for (let row = 0; row < 200; row += 1) await journal.append(ledgerRow());
    const beside = createJournalReader({ ...own, path });
    expect(await beside.usage.spentNanoUsd({ accountId: 'acct_1', start: 0, end: 1 })).toBe(200n);
    expect(own.state.commits).toBeLessThan(10);
    await journal.close();
  });

  it('reports a failed round once, however many rows arrive meanwhile', async () => {
    const own = fakeLedger();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const onError = vi.fn();
    const journal = await openOver(own, freshPath(), { applyAfterMs: 50, onError });
    const open = own.hold();
    own.state.failure = new Error('database is locked');
    for (let row = 0; row < 20; row += 1) {
      await journal.append(ledgerRow());
      await vi.advanceTimersByTimeAsync(50);
    }
    expect(onError).not.toHaveBeenCalled();
    open();
    await expect.poll(() => onError).toHaveBeenCalledTimes(1);
    own.state.failure = undefined;
    await vi.advanceTimersByTimeAsync(1_000);
    await expect.poll(() => own.rows.size).toBe(20);
    expect(onError).toHaveBeenCalledTimes(1);
    await journal.close();
  });

  it('stops accepting rows and retrying on close, and leaves no rows behind', async () => {
    const own = fakeLedger();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const path = freshPath();
    const journal = await openOver(own, path, { applyAfterMs: 50 });
    const early = journal.append(ledgerRow());
    const closing = journal.close();
    await expect(journal.append(ledgerRow())).rejects.toThrow('closed');
    await Promise.all([early, closing]);
    expect(own.rows.size).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
    own.rows.clear();
    await createJournalReader({ ...own, path }).usage.query({} as never);
    expect(own.rows.size).toBe(0);
  });

  it('keeps rows for the next start when the ledger fails on close', async () => {
    const own = fakeLedger();
    const path = freshPath();
    const onError = vi.fn();
    const journal = await openOver(own, path, { onError });
    await journal.append(ledgerRow());
    own.state.failure = new Error('disk full');
    await journal.close();
    expect(onError).toHaveBeenCalledExactlyOnceWith(own.state.failure);
    own.state.failure = undefined;
    const next = await openOver(own, path);
    expect(own.rows.size).toBe(1);
    await next.close();
  });
});
