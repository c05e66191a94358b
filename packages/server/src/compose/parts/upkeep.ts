import { hostname } from 'node:os';
import { createId } from '@baobab/core/runtime/ids.ts';
import { createAccountErasure } from '../../services/access/account-erasure.ts';
import { serverOrigin } from '../../services/audit/origins.ts';
import type { BatchRunner } from '../../services/batches/runner.ts';
import { createIdempotency } from '../../services/idempotency/idempotency.ts';
import { createServers, type Readiness } from '../../services/operators/servers.ts';
import { createProcessLeases } from '../../services/processes/process-leases.ts';
import { createBackgroundJobs } from '../background-jobs.ts';
import { COMMIT, VERSION } from '../version.ts';
import type { AccessParts } from './access.ts';
import type { Foundation } from './foundation.ts';
import type { InferenceParts, ResponseParts } from './inference.ts';
import type { ModelParts } from './models.ts';
import type { RequestParts } from './requests.ts';

export interface UpkeepOptions extends Foundation {
  access: AccessParts;
  models: ModelParts;
  inference: InferenceParts;
  responses: ResponseParts;
  requests: RequestParts;
  runner: BatchRunner;
  readiness(): Promise<Readiness>;
}

export type UpkeepParts = ReturnType<typeof composeUpkeep>;

/** Work between requests: leases, retention, the erasure of accounts, and stored answers, which expire. */
export function composeUpkeep(options: UpkeepOptions) {
  const { config, store, identity, clock, files, blobs, space, retention, schedule, isMyTurn, logger } = options;
  const { access, models, inference, requests, runner } = options;
  const { responses, responseRunner } = options.responses;
  const idempotency = createIdempotency({
    repository: store.idempotency,
    blobs,
    space,
    // Other servers cannot read this disk, so all stored answers go into the database.
    inlineBytes: config.store !== undefined && config.blobs === undefined ? Number.MAX_SAFE_INTEGER : undefined,
    quota: { items: config.idempotency.quotaKeys, bytes: config.idempotency.quotaBytes },
    clock,
    identity,
    // Begins with its time, which places the ledger row of the run in its month.
    randomId: () => createId('run', clock.now()),
  });
  const accountErasure = createAccountErasure({
    accounts: store.accounts,
    keys: store.keys,
    batches: store.batches,
    files: store.files,
    responses: store.responses,
    retention,
    idempotency,
    requests: requests.retention,
    purge: store.purge,
    onCancel: runner.wake,
    isMyTurn: (everyMs) => isMyTurn('account erasure', everyMs),
    by: serverOrigin(),
    clock,
    logger,
  });
  const leases = createProcessLeases({
    identity,
    holders: { idempotency, batches: runner, responses: responseRunner, files, admissions: inference.admissions },
    clock,
    logger,
  });
  const servers = createServers({
    servers: store.servers,
    identity,
    name: options.worker === undefined ? hostname() : `${hostname()}/${options.worker.number}`,
    version: VERSION,
    commit: COMMIT,
    readiness: options.readiness,
    clock,
  });
  const background = createBackgroundJobs({
    authentication: access.authentication,
    sessions: access.sessions,
    audit: access.audit,
    catalog: models.catalog,
    idempotency,
    leases,
    runner,
    requests,
    responses,
    responseRunner,
    fileRetention: schedule,
    accountErasure,
    prepareMonths: store.prepareMonths,
    refreshStatistics: store.refreshStatistics,
    clock,
    servers,
    isMyTurn,
    logger,
  });
  return { idempotency, accountErasure, background, servers };
}
