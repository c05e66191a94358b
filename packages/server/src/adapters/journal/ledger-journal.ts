import { StoreAwayError } from '@baobab/core/errors/store-unavailable.ts';
import type { FreshRowOptions, Ledger, LedgerRow } from '@baobab/core/ports/ledger.ts';
import type { UsageReader } from '@baobab/core/ports/usage.ts';
import { encodeRecord, openSegment, readRecords, type Segment } from './segment.ts';

/** Room for several seconds of rows at thousands a second, in case the ledger stalls. */
const SEGMENT_BYTES = 4_194_304;
/** Rows wait this long for others, then go to the ledger together. */
const APPLY_AFTER_MS = 200;
/** This many rows do not wait for more: in commits of 25, a row takes twice as long as in those of 200. */
const APPLY_ROWS = 200;
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
  /** The ledger comes first, and the journal has only what it cannot take. Otherwise every fresh row goes through the journal. */
  standby?: StandbyOptions | undefined;
}

export interface StandbyOptions {
  /** Whether the ledger is known to be away, and need not be asked. */
  isAway(): boolean;
  /** Whether a failure of the ledger is one that passes: it is away. Other failures reject. */
  passes(error: unknown): boolean;
  /** The ledger has these rows. They leave the journal when it resolves; when it fails, it is called again. */
  onMoved?(rows: readonly LedgerRow[]): Promise<void>;
}

export interface WaitingRows {
  rows: number;
  /** When the request of the oldest one ended, in milliseconds since 1970. */
  since: number | undefined;
}

export interface LedgerJournal {
  readonly ledger: Ledger;
  /** Sees everything that was appended before the call. */
  readonly usage: UsageReader;
  close(): Promise<void>;
}

export interface StandbyJournal extends LedgerJournal {
  /** What the ledger could not take yet. */
  waiting(): WaitingRows;
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

export const segmentPaths = (path: string) => [`${path}-ledger-0`, `${path}-ledger-1`] as const;

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

/** Hands on everything in a journal's files, in parts. A process may have it open: some rows are in the ledger already then. */
export async function readJournal(path: string, take: (rows: readonly LedgerRow[]) => Promise<unknown>): Promise<void> {
  for (const segment of segmentPaths(path)) {
    const rows = (await readRecords(segment)).flatMap((record) => JSON.parse(record) as LedgerRow[]);
    for (let at = 0; at < rows.length; at += REPLAY_ROWS) await take(rows.slice(at, at + REPLAY_ROWS));
  }
}

/** The ledger ignores rows it has, so any process may do this at any time. */
const replay = (path: string, ledger: Ledger): Promise<void> => readJournal(path, ledger.append);

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
export async function openLedgerJournal(options: LedgerJournalOptions): Promise<StandbyJournal> {
  const { ledger, path, synced, segmentBytes = SEGMENT_BYTES, applyAfterMs = APPLY_AFTER_MS } = options;
  const { onError = () => {}, standby } = options;

  async function move(rows: readonly LedgerRow[]): Promise<void> {
    if (standby?.isAway()) throw new StoreAwayError('The ledger is away.');
    await ledger.append(rows);
    await standby?.onMoved?.(rows);
  }

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
  /** Of a standby journal: its ledger could not take rows, and has not taken those that wait. */
  let isAway = false;
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
      await move(group);
      rows.splice(0, group.length);
    }
    // A standby journal is seldom written again. What it holds would be replayed after months, when the ledger may have archived it.
    if (standby === undefined) segment.rewind();
    else await segment.erase();
  }

  async function applyAll(): Promise<void> {
    // Usually empty; holds rows if the last round failed.
    await applyPage(applied);
    [written, applied] = [applied, written];
    await applyPage(applied);
    isAway = false;
  }

  const isUsed = () => written.segment.isUsed || applied.segment.isUsed;

  /** Resolves when everything appended so far is in the ledger. */
  async function settle(): Promise<void> {
    if (running === undefined && !isUsed()) return;
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
    if (isUsed()) applySoon();
  }

  /** Runs one round at a time, retries included: the timer stays set until the round has ended. */
  function applySoon(): void {
    if (isClosing) return;
    timer ??= setTimeout(applyRound, hasFailed ? RETRY_MS : applyAfterMs);
    if (written.rows.length < APPLY_ROWS || isApplying || hasFailed) return;
    clearTimeout(timer);
    void applyRound();
  }

  async function write(rows: readonly LedgerRow[]): Promise<void> {
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
      applySoon();
    }
  }

  /** A ledger that is away may let each row wait for long, so it is not asked again until it has taken those that wait. */
  async function appendOrKeep(
    { isAway: isKnownAway, passes }: StandbyOptions,
    rows: readonly LedgerRow[],
  ): Promise<void> {
    if (!isAway && !isKnownAway()) {
      try {
        return await ledger.appendFresh(rows);
      } catch (error) {
        if (!passes(error)) throw error;
        isAway = true;
        onError(error);
      }
    }
    try {
      await write(rows);
    } catch (error) {
      // It is full.
      if (passes(error)) throw error;
      onError(error);
      await ledger.appendFresh(rows);
    }
  }

  const appendFresh = (rows: readonly LedgerRow[], { inStore = false }: FreshRowOptions = {}): Promise<void> => {
    if (standby === undefined) return write(rows);
    return inStore ? ledger.appendFresh(rows) : appendOrKeep(standby, rows);
  };

  return {
    ledger: { append: ledger.append, appendFresh },
    usage: settledUsage(options.usage, settle),
    waiting: () => ({
      rows: applied.rows.length + written.rows.length,
      since: (applied.rows[0] ?? written.rows[0])?.time,
    }),
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
