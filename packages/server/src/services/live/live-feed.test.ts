import type { RequestEntry } from '@baobab/core/ports/request-log.ts';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { requestEntry } from '../../../../../test/contracts/request-log.ts';
import { createLiveFeed, type LiveEvent, type LiveFeed, type Subscription } from './live-feed.ts';

let end: (entry: RequestEntry) => void;
let batches: object[];
let engines: object[];
let engineReads: number;
let feed: LiveFeed;
/** How far the system's clock was set. */
let clockSetBy: number;

beforeEach(() => {
  vi.useFakeTimers();
  clockSetBy = 0;
  batches = [];
  engines = [];
  engineReads = 0;
  feed = createLiveFeed({
    recorder: {
      subscribe(listener) {
        end = listener;
        return () => {};
      },
    },
    requests: { withNames: async (entries) => entries.map((entry) => ({ ...entry, keyName: 'name' })) },
    batches: {
      list: async ({ accountId }) =>
        batches.filter(
          (batch) => accountId === undefined || (batch as { accountId?: string }).accountId === accountId,
        ) as never,
    },
    engines: {
      list: async () => {
        engineReads += 1;
        return engines as never;
      },
    },
    clock: { now: () => Date.now() + clockSetBy },
    steadyClock: { now: () => Date.now() },
    onError(error) {
      throw error;
    },
  });
});
afterEach(() => vi.useRealTimers());

function follow(changes: Partial<Subscription> = {}) {
  const events: LiveEvent[] = [];
  const stop = feed.subscribe({
    accountId: 'acct_1',
    forOperators: false,
    send: (event) => events.push(event),
    ...changes,
  });
  return { events, stop, kinds: () => events.map(({ kind }) => kind) };
}

it('sends the requests and counters of one account, or of all', async () => {
  const [one, all] = [follow(), follow({ accountId: undefined })];
  end(requestEntry('req_1'));
  end(requestEntry('req_2', { accountId: 'acct_2', status: 500 }));
  await vi.advanceTimersByTimeAsync(2_000);
  const idsOf = ({ events }: typeof one) =>
    events.flatMap((event) => (event.kind === 'requests' ? event.entries.map(({ id }) => id) : []));
  expect(idsOf(one)).toEqual(['req_1']);
  expect(idsOf(all)).toEqual(['req_2', 'req_1']);
  expect(one.events.at(-1)).toMatchObject({ kind: 'counters', lastMinute: { requests: 1, errors: 0 } });
  expect(all.events.at(-1)).toMatchObject({ kind: 'counters', lastMinute: { requests: 2, errors: 1 } });
  await vi.advanceTimersByTimeAsync(62_000);
  expect(all.events.at(-1)).toMatchObject({ lastMinute: { requests: 0 } });
});

it('counts the last minute also when the clock is set back', async () => {
  const { events } = follow();
  end(requestEntry('req_1'));
  clockSetBy = -3_600_000;
  await vi.advanceTimersByTimeAsync(62_000);
  expect(events.findLast(({ kind }) => kind === 'counters')).toMatchObject({ lastMinute: { requests: 0 } });
});

it('sends a batch when it changes, and none that ended before', async () => {
  const batch = {
    id: 'batch_1',
    accountId: 'acct_1',
    status: 'in_progress',
    counts: { total: 2, completed: 0, failed: 0 },
    endedAt: null,
  };
  batches = [batch, { ...batch, id: 'batch_0', status: 'completed', endedAt: Date.now() - 1 }];
  const { events } = follow();
  const sent = () => events.flatMap((event) => (event.kind === 'batch' ? [event.batch] : []));
  await vi.advanceTimersByTimeAsync(3_000);
  expect(sent()).toEqual([batch]);
  const done = { ...batch, status: 'completed', endedAt: Date.now() };
  batches = [done];
  await vi.advanceTimersByTimeAsync(3_000);
  expect(sent()).toEqual([batch, done]);
});

it('sends a batch that began and ended between two looks', async () => {
  const { events } = follow();
  await vi.advanceTimersByTimeAsync(1_500);
  const counts = { total: 2, completed: 2, failed: 0 };
  const short = { id: 'batch_3', accountId: 'acct_1', status: 'completed', counts, endedAt: Date.now() };
  batches = [short];
  await vi.advanceTimersByTimeAsync(3_000);
  expect(events.flatMap((event) => (event.kind === 'batch' ? [event.batch] : []))).toEqual([short]);
});

it('sends the batches of all accounts only to operators who follow all accounts', async () => {
  const batch = {
    id: 'batch_2',
    accountId: 'acct_2',
    status: 'in_progress',
    counts: { total: 2, completed: 0, failed: 0 },
    endedAt: null,
  };
  batches = [batch];
  const [one, all] = [follow(), follow({ accountId: undefined })];
  await vi.advanceTimersByTimeAsync(3_000);
  const sent = ({ events }: typeof one) => events.flatMap((event) => (event.kind === 'batch' ? [event.batch] : []));
  expect(sent(one)).toEqual([]);
  expect(sent(all)).toEqual([batch]);
});

it('looks at engines only for operators, and at nothing when nobody follows', async () => {
  engines = [{ slug: 'acme/one', version: '1', status: 'cold' }];
  const member = follow();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(engineReads).toBe(0);
  const operator = follow({ forOperators: true });
  await vi.advanceTimersByTimeAsync(2_000);
  engines = [{ slug: 'acme/one', version: '1', status: 'ready' }];
  await vi.advanceTimersByTimeAsync(2_000);
  expect(operator.kinds().filter((kind) => kind === 'engine')).toHaveLength(2);
  expect(member.kinds()).not.toContain('engine');
  operator.stop();
  member.stop();
  const reads = engineReads;
  await vi.advanceTimersByTimeAsync(5_000);
  expect(engineReads).toBe(reads);
});
