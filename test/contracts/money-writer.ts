import { randomUUID } from 'node:crypto';
import { dirname, join } from 'node:path';
import { NOTHING_USED } from '../../packages/core/src/domain/measures.ts';
import { systemClock } from '../../packages/core/src/runtime/clock.ts';
import { createDiskBlobStore } from '../../packages/server/src/adapters/blobs/disk.ts';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { createMetering } from '../../packages/server/src/metering/metering.ts';
import { createIdempotency } from '../../packages/server/src/services/idempotency/idempotency.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { account } from './key-fixtures.ts';
import { say } from './say.ts';

/**
 * Serves paid requests until it is killed: first the given numbers again, as clients do after a crash, then new ones. Prints
 * `sent <number>` before a request and `done <number>` after its answer.
 */
const [path = '', first = '0', ...again] = process.argv.slice(2);
const store = await openStore({ kind: 'sqlite', path });
if ((await store.accounts.get('acct_1')) === undefined) await store.accounts.create(account(), someEntry());
const metering = createMetering({ ledger: store.ledger, clock: systemClock });
const idempotency = createIdempotency({
  repository: store.idempotency,
  blobs: createDiskBlobStore({ directory: join(dirname(path), 'blobs'), now: Date.now }),
  clock: systemClock,
  identity: { ownerId: randomUUID(), leaseMs: 15_000 },
  randomId: randomUUID,
});
await idempotency.releaseOthers();

async function serve(number: string): Promise<void> {
  await say(`sent ${number}`);
  const begun = await idempotency.begin({
    accountId: 'acct_1',
    endpoint: 'POST /v1/embeddings',
    key: `request-${number}`,
    bodyHash: number,
    keepAnswer: true,
    signal: new AbortController().signal,
  });
  if (begun.kind === 'run') {
    await metering.record({
      billingId: begun.billingId,
      requestId: number,
      accountId: 'acct_1',
      keyId: 'key_1',
      model: 'acme/one',
      version: '2026-01-31',
      region: 'local',
      endpoint: '/v1/embeddings',
      used: { ...NOTHING_USED, promptTokens: 1 },
      pricing: { promptPerMillion: 1, completionPerMillion: null, cacheReadPerMillion: null, audioPerMinute: null },
      status: 200,
      durationMs: 1,
    });
    await begun.complete({ status: 200, headers: {}, body: Buffer.from(number) });
  }
  await say(`done ${number}`);
}

let next = Number(first);
async function lane(): Promise<never> {
  for (;;) await serve(again.shift() ?? String(next++));
}
await Promise.all(Array.from({ length: 8 }, lane));
