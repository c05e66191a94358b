import type { Ledger, LedgerRow } from '../../ports/ledger.ts';
import type { UsageReader } from '../../ports/usage.ts';
import { encodeRecord, openSegment, readRecords, type Segment } from './segment.ts';

/** Holds rows of some seconds at thousands a second, if the ledger behind should stop for so long. */
const SEGMENT_BYTES = 4_194_304;
/** Rows wait so long for others before they are brought into the ledger together. */
const APPLY_AFTER_MS = 50;
/** Rows in one commit, and how many need not wait for more: where there is one core, requests stand still for half a millisecond then. */
const APPLY_ROWS = 50;
/** The same after a start, when nobody waits. */
const REPLAY_ROWS = 500;
const RETRY_MS = 1_000;

export interface LedgerJournalOptions {
  /** Where rows end up. */
  ledger: Ledger;
  usage: UsageReader;
  /** Beginning of the paths of its two files. */
  path: string;
  /** Rows survive a power cut, not just the death of the process. */
  synced: boolean;
  segmentBytes?: number | undefined;
  applyAfterMs?: number | undefined;
  /** Rows could not be brought into the ledger; they are safe, and it is tried again. */
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
  /** Written here, and not in the ledger yet. */
  rows: LedgerRow[];
  /** Under way to the segment. A number, because a set that shrinks with every row is copied each time, into V8's old space. */
  writes: number;
  onQuiet: (() => void)[];
}

/** Resolves when nothing is under way to the segment of a page. */
async function quiet(page: Page): Promise<void> {
  if (page.writes > 0) await new Promise<void>((resolve) => page.onQuiet.push(resolve));
}

const segmentPaths = (path: string) => [`${path}-ledger-0`, `${path}-ledger-1`] as const;

const settledUsage = (usage: UsageReader, settle: () => Promise<void>): UsageReader => ({
  async query(query) {
    await settle();
    return usage.query(query);
  },
  async spentNanoUsd(query) {
    await settle();
    return usage.spentNanoUsd(query);
  },
});

/** Brings what a journal holds into the ledger. Rows that are there already are ignored, so anybody may do it at any time. */
async function replay(path: string, ledger: Ledger): Promise<void> {
  for (const segment of segmentPaths(path)) {
    const rows = (await readRecords(segment)).flatMap((record) => JSON.parse(record) as LedgerRow[]);
    for (let at = 0; at < rows.length; at += REPLAY_ROWS) await ledger.append(rows.slice(at, at + REPLAY_ROWS));
  }
}

/** For a process beside the one that writes the journal: reports are whole, whether or not that one is still alive. */
export const journalReader = ({
  ledger,
  usage,
  path,
}: Pick<LedgerJournalOptions, 'ledger' | 'usage' | 'path'>): LedgerJournal => ({
  ledger,
  usage: settledUsage(usage, () => replay(path, ledger)),
  close: async () => {},
});

/**
 * A ledger that takes fresh rows with one small write to a file, and brings them into the ledger behind it a moment later, many in
 * one commit. Two segments take turns: while the rows of one are brought in, the other is written. For one process at a time.
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
      const group = rows.slice(0, APPLY_ROWS);
      await ledger.append(group);
      rows.splice(0, group.length);
    }
    segment.rewind();
  }

  async function applyAll(): Promise<void> {
    // Empty, unless the last round failed.
    await applyPage(applied);
    [written, applied] = [applied, written];
    await applyPage(applied);
  }

  /** Resolves when everything appended so far is in the ledger. */
  async function settle(): Promise<void> {
    if (running === undefined && !written.segment.isUsed && !applied.segment.isUsed) return;
    // Rows that came after a round began are not in it: another one follows, for all who ask meanwhile.
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

  /** One round at a time, retries among them: the timer is set until it has ended. */
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
      // A file must not be closed under a write.
      await Promise.all([quiet(written), quiet(applied)]);
      let empty = true;
      try {
        await settle();
      } catch (error) {
        // They are in the files for the next start.
        onError(error);
        empty = false;
      }
      await Promise.all([written.segment.close({ empty }), applied.segment.close({ empty })]);
    },
  };
}
