import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { BatchStatus } from '../../../packages/core/src/domain/batch.ts';
import { MESSAGE_BATCH } from '../../../packages/core/src/domain/file.ts';
import type { MessageBatchesService } from '../../../packages/server/src/services/message-batches/message-batches.ts';
import { type Caller, createFileBed, type FileBed } from '../../fixtures/file-bed.ts';
import { createExecutor } from './bed.ts';

const DAY_MS = 86_400_000;
const line = (id: string, input: string) =>
  `${JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/messages', body: { input } })}\n`;

let bed: FileBed;
let caller: Caller;
beforeEach(async () => {
  bed = await createFileBed({ quotaFiles: 5 });
  caller = await bed.caller();
});
afterEach(() => bed.close());

function start() {
  const fake = createExecutor();
  const runner = bed.runner(fake.executor, { concurrency: 1 });
  runner.start();
  return { ...fake, runner, service: bed.messageBatches(runner) };
}

const receive = (service: MessageBatchesService, inputs: readonly string[]) =>
  service.receive(caller.principal, {
    content: Readable.from(inputs.map((input, index) => Buffer.from(line(`r${index}`, input)))),
  });

async function order(service: MessageBatchesService, inputs: readonly string[]): Promise<string> {
  const received = await receive(service, inputs);
  return (await service.create(caller.principal, received, { requests: inputs.length })).batch.id;
}

const reached = (id: string, status: BatchStatus) =>
  expect.poll(async () => (await bed.store.batches.get(id))?.status).toBe(status);

async function results(service: MessageBatchesService, id: string): Promise<Record<string, string>> {
  const kinds: Record<string, string> = {};
  for await (const { customId, kind } of await service.results(caller.principal.account, id))
    kinds[customId ?? ''] = kind;
  return kinds;
}
const files = async () => {
  const { id } = caller.principal.account;
  return bed.store.files.list(id, { purpose: MESSAGE_BATCH, limit: 100, order: 'asc' });
};

describe('message batches', () => {
  it('go on after a restart', async () => {
    const first = start();
    first.hold();
    const id = await order(first.service, ['text', 'held', 'text']);
    await expect.poll(() => first.atWork()).toBe(1);
    await bed.stopRunners();
    expect((await first.service.get(caller.principal.account, id)).batch.counts.total).toBe(3);
    const { service } = start();
    await reached(id, 'completed');
    expect(await results(service, id)).toEqual({ r0: 'answered', r1: 'answered', r2: 'answered' });
  });

  it('expire: requests that did not run in time are counted and named', async () => {
    const { service, runner, hold, calls } = start();
    hold();
    const id = await order(service, ['bad', 'limited 1', 'limited 2']);
    await expect.poll(() => calls.length).toBe(3);
    bed.advance(DAY_MS);
    runner.wake();
    await reached(id, 'expired');
    const { batch } = await service.get(caller.principal.account, id);
    expect(batch).toMatchObject({ counts: { total: 3, completed: 0, failed: 3 }, expiredLines: 2 });
    expect(await results(service, id)).toEqual({ r0: 'answered', r1: 'expired', r2: 'expired' });
  });

  it('expire before they begin, and count all requests as not run', async () => {
    const runner = bed.runner(createExecutor().executor);
    const service = bed.messageBatches(runner);
    const id = await order(service, ['text', 'text']);
    bed.advance(DAY_MS);
    runner.start();
    await reached(id, 'expired');
    expect(await results(service, id)).toEqual({ r0: 'expired', r1: 'expired' });
  });

  it('lose their results with the retention of files, and can be deleted then', async () => {
    const { service } = start();
    const id = await order(service, ['text', 'bad']);
    await reached(id, 'completed');
    expect((await files()).map(({ filename }) => filename).toSorted()).toEqual([
      `${id}_error.jsonl`,
      `${id}_input.jsonl`,
      `${id}_output.jsonl`,
    ]);
    const { account } = caller.principal;
    expect((await service.get(account, id)).archivedAt).toBeNull();
    bed.advance(30 * DAY_MS);
    await bed.retention.sweep();
    const { batch, archivedAt } = await service.get(account, id);
    expect(archivedAt).toBe((batch.endedAt ?? 0) + 30 * DAY_MS);
    await expect(service.results(account, id)).rejects.toMatchObject({ status: 404 });
    await service.remove(account, id);
    await expect(service.get(account, id)).rejects.toMatchObject({ status: 404 });
  });

  it('leave nothing behind when they cannot be created', async () => {
    const { service } = start();
    const { account } = caller.principal;
    // Two files each: the third batch would be the fifth and sixth file, of five.
    for (const _ of [1, 2]) await reached(await order(service, ['text']), 'completed');
    await order(service, ['text']);
    await expect(order(service, ['text'])).rejects.toMatchObject({ code: 'validation_failed' });
    await expect
      .poll(async () =>
        (await service.list(account, { limit: 9 })).batches.every(({ batch }) => batch.endedAt !== null),
      )
      .toBe(true);
    expect(await files()).toHaveLength(6);
    await expect.poll(() => bed.blobFiles()).toHaveLength(6);
    expect(await bed.store.files.stored(account.id)).toMatchObject({ items: 6 });
  });

  it('store their input once when a run is repeated', async () => {
    const { service } = start();
    const run = { billingId: 'run_1', startedAt: bed.now() };
    const create = async () => service.create(caller.principal, await receive(service, ['text']), { requests: 1, run });
    const first = await create();
    const again = await create();
    expect(again.batch.id).toBe(first.batch.id);
    await reached(first.batch.id, 'completed');
    expect(await files()).toHaveLength(2);
    await expect.poll(() => bed.blobFiles()).toHaveLength(2);
  });
});
