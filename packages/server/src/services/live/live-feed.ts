import type { Batch } from '@baobab/core/domain/batch.ts';
import type { BatchRepository } from '@baobab/core/ports/batches.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { RequestEntry } from '@baobab/core/ports/request-log.ts';
import type { EngineControl, OperatedEngine } from '../operators/engine-control.ts';
import type { RequestRecorder } from '../requests/request-recorder.ts';
import type { NamedRequest, RequestsService } from '../requests/requests.ts';

interface RecentSums {
  requests: number;
  errors: number;
  promptTokens: number;
  completionTokens: number;
  costNanoUsd: number;
}

const WINDOW_SECONDS = 60;
/** Accounts whose last minute is kept. */
const MAX_ACCOUNTS = 10_000;

const nothing = (): RecentSums => ({ requests: 0, errors: 0, promptTokens: 0, completionTokens: 0, costNanoUsd: 0 });

interface Second extends RecentSums {
  second: number;
}

/** What the requests of the last minute used, by account. */
function createRecentSums(now: () => number) {
  const accounts = new Map<string, Second[]>();

  const recent = (seconds: readonly Second[]): Second[] => {
    const oldest = Math.floor(now() / 1000) - WINDOW_SECONDS;
    return seconds.filter(({ second }) => second > oldest);
  };

  function add(sum: RecentSums, entry: RecentSums): void {
    sum.requests += entry.requests;
    sum.errors += entry.errors;
    sum.promptTokens += entry.promptTokens;
    sum.completionTokens += entry.completionTokens;
    sum.costNanoUsd += entry.costNanoUsd;
  }

  return {
    record({ accountId, status, promptTokens, completionTokens, costNanoUsd }: RequestEntry): void {
      const second = Math.floor(now() / 1000);
      let seconds = accounts.get(accountId) ?? [];
      if (seconds.at(-1)?.second !== second) {
        seconds = [...recent(seconds), { second, ...nothing() }];
        accounts.delete(accountId);
        if (accounts.size >= MAX_ACCOUNTS) accounts.delete(accounts.keys().next().value as string);
        accounts.set(accountId, seconds);
      }
      const errors = status >= 400 ? 1 : 0;
      add(seconds.at(-1) as Second, { requests: 1, errors, promptTokens, completionTokens, costNanoUsd });
    },
    /** Undefined: of all accounts. */
    of(accountId: string | undefined): RecentSums {
      const sum = nothing();
      const chosen = accountId === undefined ? [...accounts.values()] : [accounts.get(accountId) ?? []];
      for (const seconds of chosen) for (const each of recent(seconds)) add(sum, each);
      return sum;
    },
  };
}

export type LiveEvent =
  | { kind: 'counters'; time: number; lastMinute: RecentSums }
  | { kind: 'requests'; entries: NamedRequest[] }
  | { kind: 'batch'; batch: Batch }
  | { kind: 'engine'; engine: OperatedEngine };

export interface Subscription {
  /** Requests, counters and batches are those of this account. Undefined: of all. */
  accountId: string | undefined;
  /** With engines, and the names of all keys. */
  forOperators: boolean;
  send(event: LiveEvent): void;
}

export interface LiveFeed {
  /** Sends what changes until the returned function is called. At first, sends the state. */
  subscribe(subscription: Subscription): () => void;
}

export interface LiveFeedDependencies {
  recorder: Pick<RequestRecorder, 'subscribe'>;
  requests: Pick<RequestsService, 'withNames'>;
  batches: Pick<BatchRepository, 'list'>;
  engines: Pick<EngineControl, 'list'>;
  clock: Clock;
  /** For the last minute: not affected when the system clock is set. */
  steadyClock: Clock;
  onError(error: unknown): void;
}

const TICK_MS = 1_000;
/** Counters are sent at every second tick. */
const COUNTER_TICKS = 2;
const MAX_REQUESTS = 50;
const MAX_BATCHES = 100;

interface Subscriber extends Subscription {
  /** When it subscribed. Milliseconds since 1970. */
  since: number;
  /** Ended since the last tick, the oldest first. */
  ended: RequestEntry[];
  /** What was sent last, by id. */
  sent: Map<string, string>;
}

/** Polls batches and engines once a second for all subscribers, and not at all when there are none. */
export function createLiveFeed(dependencies: LiveFeedDependencies): LiveFeed {
  const { recorder, requests, batches, engines, clock, steadyClock, onError } = dependencies;
  const sums = createRecentSums(steadyClock.now);
  const subscribers = new Set<Subscriber>();
  let timer: NodeJS.Timeout | undefined;
  let ticks = 0;
  let isBusy = false;

  recorder.subscribe((entry) => {
    sums.record(entry);
    for (const { accountId, ended } of subscribers) {
      if (accountId !== undefined && accountId !== entry.accountId) continue;
      ended.push(entry);
      if (ended.length > MAX_REQUESTS) ended.shift();
    }
  });

  function sendChanged({ sent, send }: Subscriber, id: string, state: unknown, event: LiveEvent): void {
    const text = JSON.stringify(state);
    if (sent.get(id) === text) return;
    sent.set(id, text);
    send(event);
  }

  async function sendRequests(subscriber: Subscriber): Promise<void> {
    const ended = subscriber.ended.splice(0);
    if (ended.length === 0) return;
    subscriber.send({ kind: 'requests', entries: await requests.withNames(ended.reverse(), subscriber) });
  }

  async function sendBatches(watching: readonly Subscriber[]): Promise<void> {
    for (const [accountId, group] of Map.groupBy(watching, (subscriber) => subscriber.accountId)) {
      for (const batch of await batches.list({ accountId, limit: MAX_BATCHES })) {
        const { id, status, counts, endedAt } = batch;
        for (const subscriber of group) {
          // Ended before the subscription.
          if (endedAt !== null && endedAt < subscriber.since && !subscriber.sent.has(id)) continue;
          sendChanged(subscriber, id, { status, counts }, { kind: 'batch', batch });
        }
      }
    }
  }

  async function sendEngines(watching: readonly Subscriber[]): Promise<void> {
    if (watching.length === 0) return;
    for (const engine of await engines.list()) {
      const name = `${engine.slug}@${engine.version}`;
      for (const subscriber of watching) sendChanged(subscriber, name, engine, { kind: 'engine', engine });
    }
  }

  async function tick(): Promise<void> {
    // A slow store must not pile up ticks.
    if (isBusy) return;
    isBusy = true;
    ticks += 1;
    const watching = [...subscribers];
    try {
      if (ticks % COUNTER_TICKS === 0) for (const subscriber of watching) sendCounters(subscriber);
      for (const subscriber of watching) await sendRequests(subscriber);
      await sendBatches(watching);
      await sendEngines(watching.filter(({ forOperators }) => forOperators));
    } catch (error) {
      onError(error);
    } finally {
      isBusy = false;
    }
  }

  function sendCounters({ accountId, send }: Subscriber): void {
    send({ kind: 'counters', time: clock.now(), lastMinute: sums.of(accountId) });
  }

  return {
    subscribe(subscription) {
      const subscriber: Subscriber = { ...subscription, since: clock.now(), ended: [], sent: new Map() };
      subscribers.add(subscriber);
      sendCounters(subscriber);
      timer ??= setInterval(tick, TICK_MS);
      return () => {
        subscribers.delete(subscriber);
        if (subscribers.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
  };
}
