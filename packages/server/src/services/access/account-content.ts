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

export interface AccountContentDependencies {
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
  clock: Clock;
  logger: Pick<Logger, 'info'>;
}

/** Requests that were running when the account was deleted may store something until then. */
const SETTLE_MS = HOUR_MS;
const PAGE = 100;

/** What deleted accounts have stored. */
export class AccountContent {
  readonly #dependencies: AccountContentDependencies;

  constructor(dependencies: AccountContentDependencies) {
    this.#dependencies = dependencies;
  }

  /** One pass over all accounts that are deleted and not erased. Returns how much it found. */
  async erase(signal: AbortSignal): Promise<number> {
    const { accounts, retention, purge } = this.#dependencies;
    let found = 0;
    for (const account of await accounts.list()) {
      if (signal.aborted) break;
      if (account.deletedAt !== null && account.erasedAt === null) found += await this.#eraseAccount(account, signal);
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
