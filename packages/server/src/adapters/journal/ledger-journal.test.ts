import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Ledger, LedgerRow } from '@baobab/core/ports/ledger.ts';
import type { UsageReader } from '@baobab/core/ports/usage.ts';
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { ledgerRow } from '../../../../../test/contracts/ledger.ts';
import { createJournalReader, type LedgerJournalOptions, openLedgerJournal, readJournal } from './ledger-journal.ts';

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

/** The same, and it takes fresh rows itself. */
function fakeStore() {
  const own = fakeLedger();
  const ledger: Ledger = {
    ...own.ledger,
    async appendFresh(rows) {
      await own.ledger.append(rows);
    },
  };
  return { ...own, ledger };
}

const AWAY = new Error('away');

const NEVER_MS = 1_000_000;

async function openOver(
  { ledger, usage }: { ledger: Ledger; usage: UsageReader },
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
    await append(199);
    expect(own.rows.size).toBe(0);
    await append(1);
    await expect.poll(() => own.rows.size).toBe(200);
    expect(own.state.commits).toBe(1);
    // Rows beyond these share their commit.
    await journal.append(...Array.from({ length: 340 }, () => ledgerRow()));
    await expect.poll(() => own.rows.size).toBe(540);
    expect(own.state.commits).toBe(2);
    own.state.failure = new Error('disk full');
    await append(300);
    await expect.poll(() => onError).toHaveBeenCalledTimes(1);
    await append(300);
    expect(onError).toHaveBeenCalledTimes(1);
    own.state.failure = undefined;
    await vi.advanceTimersByTimeAsync(1_000);
    await expect.poll(() => own.rows.size).toBe(1_140);
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

describe('standby journal', () => {
  const passes = (error: unknown) => error === AWAY;
  const isAway = () => false;
  const ids = (rows: Iterable<LedgerRow>) => [...rows].map(({ billingId }) => billingId).sort();

  async function openStandby(
    own: ReturnType<typeof fakeStore>,
    path = freshPath(),
    options: Partial<LedgerJournalOptions> = {},
  ) {
    const moved: LedgerRow[] = [];
    const onMoved = async (rows: readonly LedgerRow[]) => void moved.push(...rows);
    const journal = await openOver(own, path, { standby: { isAway, passes, onMoved }, ...options });
    return { ...journal, moved };
  }

  it('lets the ledger take rows, and keeps those that it cannot take until it is back', async () => {
    const own = fakeStore();
    const onError = vi.fn();
    const journal = await openStandby(own, freshPath(), { onError });
    await journal.append(ledgerRow());
    expect(own.rows.size).toBe(1);
    expect(journal.waiting()).toEqual({ rows: 0, since: undefined });
    own.state.failure = AWAY;
    const waiting = [ledgerRow({ time: 7 }), ledgerRow({ time: 8 }), ledgerRow({ time: 9 })];
    for (const row of waiting) await journal.append(row);
    // Only the first one asked the ledger.
    expect(onError).toHaveBeenCalledExactlyOnceWith(AWAY);
    expect(journal.waiting()).toEqual({ rows: 3, since: 7 });
    await expect(journal.spent()).rejects.toBe(AWAY);
    own.state.failure = undefined;
    expect(await journal.spent()).toBe(4n);
    expect(ids(journal.moved)).toEqual(ids(waiting));
    expect(journal.waiting()).toEqual({ rows: 0, since: undefined });
    const { commits } = own.state;
    await journal.append(ledgerRow());
    expect(own.state.commits).toBe(commits + 1);
    await journal.close();
  });

  it('adds a row once, although its commit has succeeded without an answer', async () => {
    const own = fakeStore();
    const path = freshPath();
    const { appendFresh } = own.ledger;
    own.ledger.appendFresh = async (rows) => {
      await appendFresh(rows);
      own.state.failure = AWAY;
      throw AWAY;
    };
    const journal = await openStandby(own, path);
    const row = ledgerRow();
    await journal.append(row);
    expect([own.rows.size, journal.waiting().rows]).toEqual([1, 1]);
    own.state.failure = undefined;
    expect(await journal.spent()).toBe(1n);
    await journal.close();
  });

  it('refuses rows that fail for other reasons, and those that something else is stored with', async () => {
    const own = fakeStore();
    const journal = await openStandby(own);
    own.state.failure = new Error('a bug');
    await expect(journal.append(ledgerRow())).rejects.toThrow('a bug');
    own.state.failure = AWAY;
    await expect(journal.ledger.appendFresh([ledgerRow()], { inStore: true })).rejects.toBe(AWAY);
    await expect(journal.ledger.append([ledgerRow()])).rejects.toBe(AWAY);
    expect(journal.waiting().rows).toBe(0);
    await journal.close();
  });

  it('refuses rows when it is full, and loses none that it has taken', async () => {
    const own = fakeStore();
    const journal = await openStandby(own, freshPath(), { segmentBytes: 2_048 });
    own.state.failure = AWAY;
    const ended = await Promise.allSettled(Array.from({ length: 30 }, () => journal.append(ledgerRow())));
    const taken = ended.filter(({ status }) => status === 'fulfilled').length;
    expect(taken).toBeGreaterThan(0);
    expect(taken).toBeLessThan(30);
    own.state.failure = undefined;
    expect(await journal.spent()).toBe(BigInt(taken));
    await journal.close();
  });

  it('gives rows to the ledger while the rest moves, and is empty on disk afterwards', async () => {
    const own = fakeStore();
    const path = freshPath();
    const journal = await openStandby(own, path, { applyAfterMs: 1 });
    own.state.failure = AWAY;
    await journal.append(...Array.from({ length: 20 }, () => ledgerRow()));
    own.state.failure = undefined;
    await expect.poll(() => journal.waiting().rows, { timeout: 10_000 }).toBe(0);
    await journal.close();
    const found: LedgerRow[] = [];
    await readJournal(path, async (rows) => found.push(...rows));
    expect(found).toEqual([]);
  });

  it.each(['before the ledger has them', 'before they leave the journal'])(
    'has every acknowledged row after a crash %s, and nothing that it has moved earlier',
    async (moment) => {
      const own = fakeStore();
      const path = freshPath();
      let crashes = false;
      const onMoved = async () => {
        if (crashes) throw new Error('crash');
      };
      const dead = await openOver(own, path, { standby: { isAway, passes, onMoved } });
      own.state.failure = AWAY;
      await dead.append(ledgerRow());
      own.state.failure = undefined;
      expect(await dead.spent()).toBe(1n);
      const earlier = own.rows.size;
      own.state.failure = AWAY;
      const rows = Array.from({ length: 5 }, () => ledgerRow());
      for (const row of rows) await dead.append(row);
      if (moment === 'before they leave the journal') {
        crashes = true;
        own.state.failure = undefined;
        await expect(dead.spent()).rejects.toThrow('crash');
        expect(own.rows.size).toBe(earlier + rows.length);
      }
      const found: LedgerRow[] = [];
      await readJournal(path, async (more) => found.push(...more));
      expect(ids(found)).toEqual(ids(rows));
      own.state.failure = undefined;
      crashes = false;
      const next = await openStandby(own, path);
      expect(own.rows.size).toBe(earlier + rows.length);
      await next.close();
      await dead.close();
    },
  );

  it('lets the ledger try again when the journal cannot be written', async () => {
    const own = fakeStore();
    const onError = vi.fn();
    const journal = await openStandby(own, freshPath(), { onError });
    own.state.failure = AWAY;
    await journal.append(ledgerRow());
    await journal.close();
    await expect(journal.append(ledgerRow())).rejects.toBe(AWAY);
    own.state.failure = undefined;
    await journal.append(ledgerRow());
    expect(own.rows.size).toBe(1);
    expect(onError).toHaveBeenCalledWith(expect.objectContaining({ message: 'the journal is closed' }));
  });
});
