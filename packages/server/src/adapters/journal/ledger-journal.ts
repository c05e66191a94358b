import type { Ledger, LedgerRow } from '@baobab/core/ports/ledger.ts';
import type { UsageReader } from '@baobab/core/ports/usage.ts';
import { encodeRecord, openSegment, readRecords, type Segment } from './segment.ts';

/** Room for several seconds of rows at thousands a second, in case the ledger stalls. */
const SEGMENT_BYTES = 4_194_304;
/** Rows wait this long for others, then go to the ledger together. */
const APPLY_AFTER_MS = 50;
/** This many rows do not wait for more. On one core, a commit of this size holds up requests for less than a millisecond. */
const APPLY_ROWS = 100;
/** Rows in one commit. Some rows arrive while the commit is prepared; one of their own for them would cost as much as the first. */
const COMMIT_ROWS = 2 * APPLY_ROWS;
/** Rows in one commit during recovery, when there are no requests to hold up. */
const REPLAY_ROWS = 500;
const RETRY_MS = 1_000;

export interface LedgerJournalOptions {
  /** Where rows end up. The journal decorates it together with `usage`. */
  ledger: Ledger;
  usage: UsageReader;
  /** Prefix of the paths of its two files. */
  path: string;
  /** Rows survive a power cut, not just the death of the process. */
  synced: boolean;
  segmentBytes?: number | undefined;
  applyAfterMs?: number | undefined;
  /** Called when rows could not be moved into the ledger. They stay in the journal and are retried. */
  onError?: ((error: unknown) => void) | undefined;
}

export interface LedgerJournal {
  readonly ledger: Ledger;
  /** Sees everything that was appended before the call. */
  readonly usage: UsageReader;
  close(): Promise<void>;
}

interface Page {
  segment: Segment;
  /** In the segment, and not in the ledger yet. */
  rows: LedgerRow[];
  /** Writes in progress. A counter, because a Set that shrinks with every row is copied each time, into V8's old space. */
  writes: number;
  onQuiet: (() => void)[];
}

/** Resolves when no write to the segment of this page is in progress. */
async function quiet(page: Page): Promise<void> {
  if (page.writes > 0) await new Promise<void>((resolve) => page.onQuiet.push(resolve));
}

const segmentPaths = (path: string) => [`${path}-ledger-0`, `${path}-ledger-1`] as const;

const settledUsage = (usage: UsageReader, settle: () => Promise<void>): UsageReader => ({
  async query(query, caller) {
    await settle();
    return usage.query(query, caller);
  },
  async spentNanoUsd(query) {
    await settle();
    return usage.spentNanoUsd(query);
  },
  async batchBills(batchId) {
    await settle();
    return usage.batchBills(batchId);
  },
});

/** Appends everything in a journal's files to the ledger. The ledger ignores rows it has, so any process may do this at any time. */
async function replay(path: string, ledger: Ledger): Promise<void> {
  for (const segment of segmentPaths(path)) {
    const rows = (await readRecords(segment)).flatMap((record) => JSON.parse(record) as LedgerRow[]);
    for (let at = 0; at < rows.length; at += REPLAY_ROWS) await ledger.append(rows.slice(at, at + REPLAY_ROWS));
  }
}

/** For a process beside the one that writes the journal: replays the journal before every report, so that none misses rows. */
export const createJournalReader = ({
  ledger,
  usage,
  path,
}: Pick<LedgerJournalOptions, 'ledger' | 'usage' | 'path'>): LedgerJournal => ({
  ledger,
  usage: settledUsage(usage, () => replay(path, ledger)),
  close: async () => {},
});

/**
 * Decorates a ledger: a fresh row is one small write to a file, and a moment later the ledger gets many rows in one commit. There are
 * two segments: while the rows of one move to the ledger, new rows go to the other. Only one process at a time may open it.
 */
export async function openLedgerJournal(options: LedgerJournalOptions): Promise<LedgerJournal> {
  const { ledger, path, synced, segmentBytes = SEGMENT_BYTES, applyAfterMs = APPLY_AFTER_MS } = options;
  const { onError = () => {} } = options;
  await replay(path, ledger);
  const openPage = async (segment: string): Promise<Page> => ({
    segment: await openSegment({ path: segment, bytes: segmentBytes, synced }),
    rows: [],
    writes: 0,
    onQuiet: [],
  });
  const [first, second] = segmentPaths(path);
  let [written, applied] = await Promise.all([openPage(first), openPage(second)]);
  let isClosing = false;
  let timer: NodeJS.Timeout | undefined;
  let isApplying = false;
  let hasFailed = false;
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  async function applyPage(page: Page): Promise<void> {
    const { segment, rows } = page;
    await quiet(page);
    while (rows.length > 0) {
      const group = rows.slice(0, COMMIT_ROWS);
      await ledger.append(group);
      rows.splice(0, group.length);
    }
    segment.rewind();
  }

  async function applyAll(): Promise<void> {
    // Usually empty; holds rows if the last round failed.
    await applyPage(applied);
    [written, applied] = [applied, written];
    await applyPage(applied);
  }

  /** Resolves when everything appended so far is in the ledger. */
  async function settle(): Promise<void> {
    if (running === undefined && !written.segment.isUsed && !applied.segment.isUsed) return;
    // A round leaves out rows that came after it began. One more round follows it and serves every caller that asks meanwhile.
    next ??= Promise.resolve(running?.catch(() => {})).then(() => {
      next = undefined;
      running = applyAll().finally(() => {
        running = undefined;
      });
      return running;
    });
    return next;
  }

  async function applyRound(): Promise<void> {
    isApplying = true;
    try {
      await settle();
      hasFailed = false;
    } catch (error) {
      onError(error);
      hasFailed = true;
    }
    isApplying = false;
    timer = undefined;
    if (written.segment.isUsed || applied.segment.isUsed) applySoon();
  }

  /** Runs one round at a time, retries included: the timer stays set until the round has ended. */
  function applySoon(): void {
    if (isClosing) return;
    timer ??= setTimeout(applyRound, hasFailed ? RETRY_MS : applyAfterMs);
    if (written.rows.length < APPLY_ROWS || isApplying || hasFailed) return;
    clearTimeout(timer);
    void applyRound();
  }

  async function appendFresh(rows: readonly LedgerRow[]): Promise<void> {
    const record = encodeRecord(JSON.stringify(rows));
    if (record.length > segmentBytes) {
      await ledger.append(rows);
      return;
    }
    while (!written.segment.hasRoomFor(record.length)) await settle();
    if (isClosing) throw new Error('the journal is closed');
    const page = written;
    page.writes += 1;
    try {
      await page.segment.write(record);
      page.rows.push(...rows);
    } finally {
      page.writes -= 1;
      if (page.writes === 0) for (const resolve of page.onQuiet.splice(0)) resolve();
    }
    applySoon();
  }

  return {
    ledger: { append: ledger.append, appendFresh },
    usage: settledUsage(options.usage, settle),
    async close() {
      isClosing = true;
      clearTimeout(timer);
      // Never close a file during a write.
      await Promise.all([quiet(written), quiet(applied)]);
      let empty = true;
      try {
        await settle();
      } catch (error) {
        // The rows stay in the files for the next start.
        onError(error);
        empty = false;
      }
      await Promise.all([written.segment.close({ empty }), applied.segment.close({ empty })]);
    },
  };
}
