import type { ChangeOrigin } from '../../domain/audit/entry.ts';
import { isActive } from '../../domain/batch.ts';
import type { Account } from '../../domain/principal.ts';
import { HOUR_MS } from '../../domain/time/durations.ts';
import type { BatchRepository } from '../../ports/batches.ts';
import type { Clock } from '../../ports/clock.ts';
import type { FileRepository } from '../../ports/files.ts';
import type { Logger } from '../../ports/logger.ts';
import type { AccountRepository, KeyRepository } from '../../ports/repositories.ts';
import type { ResponseRepository } from '../../ports/responses.ts';
import { changeEntries } from '../audit/entries.ts';
import type { FileRetention } from '../files/file-retention.ts';
import type { Idempotency } from '../idempotency/idempotency.ts';
import type { RequestRetention } from '../requests/request-retention.ts';

/** Removes the content of deleted accounts: batches, files, responses and stored answers. The ledger stays for billing. */
export interface AccountErasure {
  /** Looks for deleted accounts now and at intervals, in the background, when it is this server's turn. */
  start(): void;
  /** To be called when an account was deleted on this server. */
  wake(): void;
  /** Waits for the running pass. */
  stop(): Promise<void>;
}

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
  /** Asked before each look: one of all servers on the store does it in each interval. */
  isMyTurn(everyMs: number): Promise<boolean>;
  /** This server, in the audit log. */
  by: ChangeOrigin;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'error'>;
}

/** Accounts that a command deleted, or a server that ended since, are seen after about this time. */
const LOOK_MS = 60_000;
/** After a pass that found something: cancelled batches need a moment to end. */
const AGAIN_MS = 1_000;
/** Requests that were running when the account was deleted may store something until then. */
const SETTLE_MS = HOUR_MS;
const PAGE = 100;

export function createAccountErasure(dependencies: AccountErasureDependencies): AccountErasure {
  const { accounts, keys, batches, files, responses, retention, idempotency, requests, purge, onCancel } = dependencies;
  const { isMyTurn, by, clock, logger } = dependencies;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let lookAgain = false;
  let stopped = false;

  async function revokeKeys(account: Account): Promise<void> {
    const { id, deletedAt } = account;
    for (const key of await keys.list({ accountId: id })) {
      if (key.revokedAt !== null) continue;
      const entryOf = changeEntries(by, clock.now()).keyChanged('key.revoked', account);
      await keys.update(key.id, { revokedAt: deletedAt }, entryOf);
    }
  }

  /** Cancels batches that are active and deletes the others. */
  async function eraseBatches(accountId: string): Promise<number> {
    let found = 0;
    for (let after: string | undefined; !stopped; ) {
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

  async function eraseFiles(accountId: string): Promise<number> {
    let found = 0;
    while (!stopped) {
      const page = await files.list(accountId, { limit: PAGE, order: 'asc' });
      for (const { id } of page) await files.discard(accountId, id, clock.now());
      found += page.length;
      if (page.length < PAGE) break;
    }
    return found;
  }

  async function eraseResponses(accountId: string): Promise<number> {
    let found = 0;
    while (!stopped) {
      const page = await responses.deleteOfAccount(accountId, PAGE);
      found += page;
      if (page === 0) break;
    }
    return found;
  }

  async function erase(account: Account): Promise<number> {
    await revokeKeys(account);
    const found = {
      batches: await eraseBatches(account.id),
      files: await eraseFiles(account.id),
      responses: await eraseResponses(account.id),
      answers: await idempotency.eraseAccount(account.id),
      requests: await requests.eraseAccount(account.id),
    };
    const total = found.batches + found.files + found.responses + found.answers + found.requests;
    if (total > 0) logger.info({ account: account.id, ...found }, 'erasing the content of a deleted account');
    else if (clock.now() - (account.deletedAt ?? 0) >= SETTLE_MS) {
      const entryOf = changeEntries(by, clock.now()).accountChanged('account.erased');
      await accounts.update(account.id, { erasedAt: clock.now() }, entryOf);
      logger.info({ account: account.id }, 'erased a deleted account');
    }
    return total;
  }

  /** One pass over all accounts that are deleted and not erased. */
  async function pass(): Promise<number> {
    let found = 0;
    for (const account of await accounts.list()) {
      if (stopped) break;
      if (account.deletedAt !== null && account.erasedAt === null) found += await erase(account);
    }
    if (found > 0) {
      await retention.removeDiscarded();
      await purge();
    }
    return found;
  }

  async function work(): Promise<void> {
    let found = 0;
    try {
      if (!lookAgain) lookAgain = await isMyTurn(LOOK_MS);
      while (lookAgain && !stopped) {
        lookAgain = false;
        found = await pass();
      }
    } catch (error) {
      logger.error({ err: error }, 'failed to erase a deleted account; will try again');
    }
    running = undefined;
    if (stopped) return;
    // This server goes on with what it has begun.
    timer = found > 0 ? setTimeout(wake, AGAIN_MS) : setTimeout(look, LOOK_MS);
  }

  function look(): void {
    if (stopped || running !== undefined) return;
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
      stopped = true;
      clearTimeout(timer);
      await running;
    },
  };
}
