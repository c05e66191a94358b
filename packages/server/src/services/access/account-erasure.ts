import type { ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import { isActive } from '@baobab/core/domain/batch.ts';
import type { Account } from '@baobab/core/domain/principal.ts';
import { HOUR_MS } from '@baobab/core/domain/time/durations.ts';
import type { BatchRepository } from '@baobab/core/ports/batches.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { FileRepository } from '@baobab/core/ports/files.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { AccountRepository, KeyRepository } from '@baobab/core/ports/repositories.ts';
import type { ResponseRepository } from '@baobab/core/ports/responses.ts';
import { changeEntries } from '../audit/entries.ts';
import type { FileRetention } from '../files/file-retention.ts';
import type { Idempotency } from '../idempotency/idempotency.ts';
import type { RequestRetention } from '../requests/request-retention.ts';

export interface AccountErasureDependencies {
  accounts: AccountRepository;
  keys: KeyRepository;
  batches: BatchRepository;
  files: FileRepository;
  responses: Pick<ResponseRepository, 'deleteOfAccount'>;
  retention: Pick<FileRetention, 'removeDiscarded'>;
  idempotency: Pick<Idempotency, 'eraseAccount'>;
  requests: Pick<RequestRetention, 'eraseAccount'>;
  /** Removes deleted rows from the files of the store. */
  purge(): Promise<void>;
  /** Called when batches were cancelled. */
  onCancel(): void;
  /** This server, in the audit log. */
  by: ChangeOrigin;
  /** Asked before each look: one of all servers on the store does it in each interval. */
  isMyTurn(everyMs: number): Promise<boolean>;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'error'>;
}

/** Requests that were running when the account was deleted may store something until then. */
const SETTLE_MS = HOUR_MS;
const PAGE = 100;

/** What deleted accounts have stored. */
class AccountContent {
  readonly #dependencies: AccountErasureDependencies;

  constructor(dependencies: AccountErasureDependencies) {
    this.#dependencies = dependencies;
  }

  /** One pass over all accounts that are deleted and not erased. Returns how much it found. */
  async erase(signal: AbortSignal): Promise<number> {
    const { accounts, retention, purge } = this.#dependencies;
    let found = 0;
    for (const account of await accounts.listUnerased()) {
      if (signal.aborted) break;
      found += await this.#eraseAccount(account, signal);
    }
    if (found > 0) {
      await retention.removeDiscarded();
      await purge();
    }
    return found;
  }

  async #revokeKeys(account: Account): Promise<void> {
    const { keys, by, clock } = this.#dependencies;
    const { id, deletedAt } = account;
    for (const key of await keys.list({ accountId: id })) {
      if (key.revokedAt !== null) continue;
      const entryOf = changeEntries(by, clock.now()).keyChanged('key.revoked', account);
      await keys.update(key.id, { revokedAt: deletedAt }, entryOf);
    }
  }

  /** Cancels batches that are active and deletes the others. */
  async #eraseBatches(accountId: string, signal: AbortSignal): Promise<number> {
    const { batches, clock, onCancel } = this.#dependencies;
    let found = 0;
    for (let after: string | undefined; !signal.aborted; ) {
      const page = await batches.list({ accountId, limit: PAGE, after });
      found += page.length;
      for (const { id, status } of page) if (isActive(status)) await batches.cancel(id, clock.now());
      await batches.forget(page.filter(({ status }) => !isActive(status)).map(({ id }) => id));
      after = page.at(-1)?.id;
      if (page.length < PAGE) break;
    }
    if (found > 0) onCancel();
    return found;
  }

  async #eraseFiles(accountId: string, signal: AbortSignal): Promise<number> {
    const { files, clock } = this.#dependencies;
    let found = 0;
    while (!signal.aborted) {
      const page = await files.list(accountId, { limit: PAGE, order: 'asc' });
      for (const { id } of page) await files.discard(accountId, id, clock.now());
      found += page.length;
      if (page.length < PAGE) break;
    }
    return found;
  }

  async #eraseResponses(accountId: string, signal: AbortSignal): Promise<number> {
    const { responses } = this.#dependencies;
    let found = 0;
    while (!signal.aborted) {
      const page = await responses.deleteOfAccount(accountId, PAGE);
      found += page;
      if (page === 0) break;
    }
    return found;
  }

  async #eraseAccount(account: Account, signal: AbortSignal): Promise<number> {
    const { accounts, idempotency, requests, by, clock, logger } = this.#dependencies;
    await this.#revokeKeys(account);
    const found = {
      batches: await this.#eraseBatches(account.id, signal),
      files: await this.#eraseFiles(account.id, signal),
      responses: await this.#eraseResponses(account.id, signal),
      answers: await idempotency.eraseAccount(account.id),
      requests: await requests.eraseAccount(account.id),
    };
    const total = found.batches + found.files + found.responses + found.answers + found.requests;
    if (total > 0) logger.info({ account: account.id, ...found }, 'erasing the content of a deleted account');
    // A server that stops has not looked for everything.
    else if (!signal.aborted && clock.now() - (account.deletedAt ?? 0) >= SETTLE_MS) {
      const entryOf = changeEntries(by, clock.now()).accountChanged('account.erased');
      await accounts.update(account.id, { erasedAt: clock.now() }, entryOf);
      logger.info({ account: account.id }, 'erased a deleted account');
    }
    return total;
  }
}

/** Removes the content of deleted accounts: batches, files, responses and stored answers. The ledger stays for billing. */
export interface AccountErasure {
  /** Looks for deleted accounts now and at intervals, in the background, when it is this server's turn. */
  start(): void;
  /** Call it when an account was deleted on this server. */
  wake(): void;
  /** Waits for the running pass. */
  stop(): Promise<void>;
}

/** How soon accounts deleted by a command, or by a server that has ended, are found. */
const LOOK_MS = 60_000;
/** After a pass that found something: cancelled batches need a moment to end. */
const AGAIN_MS = 1_000;

export function createAccountErasure(dependencies: AccountErasureDependencies): AccountErasure {
  const { isMyTurn, logger } = dependencies;
  const content = new AccountContent(dependencies);
  const stopping = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let lookAgain = false;

  async function work(): Promise<void> {
    let found = 0;
    try {
      if (!lookAgain) lookAgain = await isMyTurn(LOOK_MS);
      while (lookAgain && !stopping.signal.aborted) {
        lookAgain = false;
        found = await content.erase(stopping.signal);
      }
    } catch (error) {
      logger.error({ err: error }, 'failed to erase a deleted account; will try again');
    }
    running = undefined;
    if (stopping.signal.aborted) return;
    // This server goes on with what it has begun.
    timer = found > 0 ? setTimeout(wake, AGAIN_MS) : setTimeout(look, LOOK_MS);
  }

  function look(): void {
    if (stopping.signal.aborted || running !== undefined) return;
    clearTimeout(timer);
    running = work();
  }

  /** One pass at a time. A call during one causes another after it. */
  function wake(): void {
    lookAgain = true;
    look();
  }

  return {
    start: look,
    wake,
    async stop() {
      stopping.abort();
      clearTimeout(timer);
      await running;
    },
  };
}
