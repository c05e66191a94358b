import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { StorageFullError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { LedgerRow } from '@baobab/core/ports/ledger.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import type { Store } from '../store.ts';
import { openLedgerJournal, readJournal, segmentPaths, type WaitingRows } from './ledger-journal.ts';

/** Room for more requests than one process runs at a time. */
const SEGMENT_BYTES = 8_388_608;

const pathIn = (folder: string): string => join(folder, 'baobab.postgres');

/** The folders of a data directory that may have a journal: its own, and those of its workers. */
export async function journalFolders(dataDir: string): Promise<string[]> {
  const workers = join(dataDir, 'workers');
  const names = await readdir(workers).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return [dataDir, ...names.map((name) => join(workers, name))];
}

export interface MoveOptions {
  folder: string;
  store: Pick<Store, 'ledger' | 'accounts'>;
  /** The store has these rows. Called before they leave the journal, and again when it fails. */
  onMoved(rows: readonly LedgerRow[]): Promise<void>;
}

export interface MovedRows {
  rows: number;
  /** Those that the store did not have. */
  added: number;
}

async function refuseStrangers(rows: readonly LedgerRow[], { folder, store }: MoveOptions): Promise<void> {
  const ids = [...new Set(rows.map(({ accountId }) => accountId))];
  const known = new Set((await store.accounts.getMany(ids)).map(({ id }) => id));
  if (ids.every((id) => known.has(id))) return;
  throw new StoreUnavailableError(
    `The journal in ${folder} has ledger rows of accounts that this database does not have, so it belongs to another one. ` +
      `Move them there: set store to its address and run 'baobab journal replay ${folder}'.`,
  );
}

/**
 * Moves the rows that a process has left in a folder into the store, and removes their files. The store ignores rows that it has. No
 * process may have the journal open.
 */
export async function moveLeftRows(options: MoveOptions): Promise<MovedRows> {
  const { folder, store, onMoved } = options;
  const moved = { rows: 0, added: 0 };
  await readJournal(pathIn(folder), async (rows) => {
    await refuseStrangers(rows, options);
    const areNew = await store.ledger.append(rows);
    await onMoved(rows);
    moved.rows += rows.length;
    moved.added += areNew.filter((isNew) => isNew).length;
  });
  for (const segment of segmentPaths(pathIn(folder))) await rm(segment, { force: true });
  return moved;
}

/** What passes by itself or is mended by an operator. A full disk refuses what a journal would only put off. */
const passes = (error: unknown): boolean =>
  error instanceof StoreUnavailableError && !(error instanceof StorageFullError);

export interface JournaledStore {
  store: Store;
  waiting(): WaitingRows;
}

/**
 * Fresh ledger rows wait in a folder of this machine while the store is away, and move to it when it is back. All else that is written
 * fails meanwhile, rows included that may be repeated or that something else is stored with.
 */
export async function withJournal({
  folder,
  store,
  onMoved,
  onError,
}: MoveOptions & { store: Store; onError(error: unknown): void }): Promise<JournaledStore> {
  await moveLeftRows({ folder, store, onMoved });
  const { health } = store;
  const opening = openLedgerJournal({
    ledger: {
      append: (rows) => health.orAway(store.ledger.append(rows)),
      appendFresh: (rows) => health.orAway(store.ledger.appendFresh(rows)),
    },
    usage: store.usage,
    path: pathIn(folder),
    synced: true,
    segmentBytes: SEGMENT_BYTES,
    onError,
    standby: { isAway: () => health.isAway(), passes, onMoved },
  });
  const { ledger, usage, waiting, close } = await opening.catch((cause: unknown) => {
    throw new StoreUnavailableError(
      `The journal for ledger rows cannot be opened in ${folder}: ${systemReason(cause)}. ` +
        'Make room or make the folder writable, or set store_journal to false.',
      { cause },
    );
  });
  return {
    waiting,
    store: {
      ...store,
      ledger,
      usage,
      close: () => close().finally(() => store.close()),
    },
  };
}
