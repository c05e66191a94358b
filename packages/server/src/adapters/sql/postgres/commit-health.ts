import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { StorageFullError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { StoreHealth } from '@baobab/core/ports/store-health.ts';
import type { Pool } from 'pg';
import { problemInWords, withStoreErrors } from './failures.ts';

/** A commit that takes longer is a problem: a standby that must confirm it may be gone. */
const SLOW_MS = 3_000;
const LOOK_MS = 1_000;
/** Between two attempts while the database is away. */
const PAUSE_MS = 500;

/** Writes to the log of the database, so that the commit waits for whatever a commit of ours waits for. */
const PROBE_SQL = `select pg_logical_emit_message(true, 'baobab', ''), current_setting('transaction_read_only') as read_only`;

interface Impatient {
  begunAt: number;
  giveUp(error: StoreUnavailableError): void;
}

interface Outage {
  since: number;
  error: StoreUnavailableError;
  ended: PromiseWithResolvers<void>;
}

export interface CommitHealthOptions {
  /** Of the connections that write. */
  pool: Pool;
  /** How long an outage may take for requests that wait for its end. */
  patienceMs: number;
  slowMs?: number | undefined;
  /** Called again and again while a commit takes long. */
  onSlow?(): void;
}

/**
 * Whether transactions can be committed. A write of its own decides: after another one failed or takes long, when somebody asks, and again
 * and again while it fails.
 */
export class CommitHealth implements StoreHealth {
  readonly #pool: Pool;
  readonly #patienceMs: number;
  readonly #slowMs: number;
  /** When running commits began, the oldest first. */
  readonly #running = new Set<{ begunAt: number }>();
  readonly #impatient = new Set<Impatient>();
  readonly #timer: NodeJS.Timeout;
  #probe: Promise<void> | undefined;
  #outage: Outage | undefined;
  #workedAt = Number.NEGATIVE_INFINITY;
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor({ pool, patienceMs, slowMs = SLOW_MS, onSlow }: CommitHealthOptions) {
    this.#pool = pool;
    this.#patienceMs = patienceMs;
    this.#slowMs = slowMs;
    this.#timer = setInterval(() => {
      const [oldest] = this.#running;
      if (oldest === undefined || performance.now() - oldest.begunAt <= slowMs) return;
      void this.#look();
      onSlow?.();
    }, LOOK_MS).unref();
  }

  /** Watches a transaction that writes. */
  async watch<T>(commit: () => Promise<T>): Promise<T> {
    const running = { begunAt: performance.now() };
    this.#running.add(running);
    try {
      return await commit();
    } catch (error) {
      if (error instanceof StoreUnavailableError && !(error instanceof StorageFullError)) void this.#look();
      throw error;
    } finally {
      this.#running.delete(running);
    }
  }

  async problem(): Promise<string | undefined> {
    // While it is away, the last attempt was a moment ago. Strangers may ask, so it is not asked each time.
    const isKnown = this.#outage !== undefined || performance.now() - this.#workedAt < LOOK_MS;
    if (!isKnown) await this.#look();
    return this.#outage && problemInWords(this.#outage.error);
  }

  isAway(): boolean {
    return this.#outage !== undefined;
  }

  async orAway<T>(work: Promise<T>): Promise<T> {
    const gaveUp = Promise.withResolvers<never>();
    const waiting: Impatient = { begunAt: performance.now(), giveUp: gaveUp.reject };
    this.#impatient.add(waiting);
    try {
      return await Promise.race([work, gaveUp.promise]);
    } finally {
      this.#impatient.delete(waiting);
    }
  }

  back(signal?: AbortSignal): Promise<void> | undefined {
    return this.#outage && this.#endOf(this.#outage, signal);
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
    clearTimeout(this.#retry);
    this.#outage?.ended.resolve();
  }

  async #endOf({ since, error, ended }: Outage, signal: AbortSignal | undefined): Promise<void> {
    const leftMs = since + this.#patienceMs - performance.now();
    if (signal?.aborted) throw cancellation(signal);
    if (leftMs <= 0) throw error;
    const gaveUp = Promise.withResolvers<never>();
    const timer = setTimeout(() => gaveUp.reject(error), leftMs);
    const leave = () => signal && gaveUp.reject(cancellation(signal));
    signal?.addEventListener('abort', leave);
    try {
      await Promise.race([ended.promise, gaveUp.promise]);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', leave);
    }
  }

  /** One at a time. Never rejects. */
  #look(): Promise<void> {
    this.#probe ??= this.#try().finally(() => {
      this.#probe = undefined;
    });
    return this.#probe;
  }

  async #try(): Promise<void> {
    try {
      await withStoreErrors(this.#write());
      this.#workedAt = performance.now();
      this.#outage?.ended.resolve();
      this.#outage = undefined;
    } catch (cause) {
      if (this.#isClosed || cause instanceof StorageFullError) return;
      const error =
        cause instanceof StoreUnavailableError ? cause : new StoreUnavailableError(String(cause), { cause });
      if (this.#outage === undefined) {
        this.#outage = { since: performance.now(), error, ended: Promise.withResolvers() };
      } else this.#outage.error = error;
      for (const { begunAt, giveUp } of this.#impatient) {
        if (performance.now() - begunAt > this.#slowMs) giveUp(error);
      }
      this.#retry = setTimeout(() => void this.#look(), PAUSE_MS).unref();
    }
  }

  async #write(): Promise<void> {
    const late = Promise.withResolvers<never>();
    const slow = () => late.reject(new StoreUnavailableError(`PostgreSQL has not committed for ${this.#slowMs} ms.`));
    const timer = setTimeout(slow, this.#slowMs);
    const connecting = this.#pool.connect();
    let isLate = true;
    try {
      const client = await Promise.race([connecting, late.promise]);
      isLate = false;
      let failure: unknown;
      try {
        const { rows } = await Promise.race([client.query<{ read_only: string }>(PROBE_SQL), late.promise]);
        if (rows[0]?.read_only === 'on') throw new StoreUnavailableError('PostgreSQL is read-only.');
      } catch (error) {
        failure = error;
        throw error;
      } finally {
        // Another connection may lead to a server that can be written.
        client.release(failure !== undefined);
      }
    } finally {
      clearTimeout(timer);
      if (isLate)
        connecting.then(
          (client) => client.release(),
          () => {},
        );
    }
  }
}
