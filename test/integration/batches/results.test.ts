import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import {
  type Batch,
  lineBillingId,
  MAX_BATCH_BYTES,
  MAX_BATCH_LINES,
} from '../../../packages/core/src/domain/batch.ts';
import { ledgerRow } from '../../contracts/ledger.ts';
import { createFileBed } from '../../fixtures/file-bed.ts';
import { createExecutor, request, requests, useBatchBed } from './bed.ts';

describe('results of batches', () => {
  const shared = useBatchBed();
  const { start, reached, done, lines, customIds } = shared;

  it('writes results in the order of the input, with bad lines in a separate file', async () => {
    const { order, calls } = start();
    const input = [
      ...requests(600),
      '',
      '{ no json',
      request('text-5', 'again'),
      JSON.stringify({ custom_id: 'u', method: 'POST', url: '/v1/rerank', body: {} }),
      request('refused', 'bad'),
    ];
    const batch = await reached(await order(input), 'completed');
    expect(batch.counts).toEqual({ total: 604, completed: 600, failed: 4 });
    expect(batch.problems.map(({ code, line }) => [code, line])).toEqual([
      ['invalid_json_line', 602],
      ['duplicate_custom_id', 603],
      ['mismatched_url', 604],
    ]);
    const output = await lines(batch.outputFileId);
    expect(output.map((line) => line.custom_id)).toEqual(requests(600).map((_, index) => `text-${index}`));
    expect(output[7]).toMatchObject({ response: { status_code: 200, body: { echo: 'text 7' } }, error: null });
    const failed = await lines(batch.errorFileId);
    expect(failed.map((line) => [line.custom_id, line.error?.code ?? line.response?.status_code])).toEqual([
      [null, 'invalid_json_line'],
      ['text-5', 'duplicate_custom_id'],
      ['u', 'mismatched_url'],
      ['refused', 400],
    ]);
    expect(failed[0]?.error?.message).toMatch(/^Line 602: This line is not valid JSON: Expected property name/);
    expect(failed[3]?.response?.body).toMatchObject({ error: { code: 'invalid_parameter', param: 'input' } });
    expect(calls[0]?.call).toMatchObject({ priority: 'batch', discountPercent: 50, endpoint: '/v1/embeddings' });
    expect(calls[0]?.call.billingId).toBe(`${batch.id}:1`);
    expect(new Set(calls.map(({ call }) => call.billingId)).size).toBe(601);
    // Nothing but the input and the two results is left.
    const groups = async () => (await shared.bed.blobFiles()).filter((name) => name.includes('/batches/'));
    await expect.poll(groups).toEqual([]);
    expect(await shared.bed.store.files.attached(batch.id)).toBeUndefined();
  });

  it('holds what its lines were billed, once it has ended', async () => {
    const { order, hold, release } = start();
    hold();
    const batch = await order(requests(2, 'held'));
    // The second line was billed by a process that crashed before it recorded the answer.
    const rows = [1, 2].map((line) =>
      ledgerRow({ billingId: lineBillingId(batch.id, line), model: 'acme/one', costNanoUsd: 40 }),
    );
    await shared.bed.store.ledger.append([...rows, ledgerRow({ model: 'acme/one' })]);
    expect(batch.bills).toBeNull();
    release();
    const { bills } = await reached(batch, 'completed');
    expect(bills).toMatchObject([{ model: 'acme/one', requests: 2, promptTokens: 20, costNanoUsd: 80 }]);
  });

  it('fails when the file cannot be used', async () => {
    const { order } = start();
    const failedWith = async (input: readonly string[]) => {
      const batch = await reached(await order(input), 'failed');
      expect([batch.outputFileId, batch.errorFileId]).toEqual([null, null]);
      return batch.problems.map(({ code, line }) => [code, line]);
    };
    expect(await failedWith([])).toEqual([['empty_file', null]]);
    expect(await failedWith(['', '  ', ''])).toEqual([['empty_file', null]]);
    expect(await failedWith(['a,b', '1,2'])).toEqual([
      ['no_valid_line', null],
      ['invalid_json_line', 1],
      ['invalid_json_line', 2],
    ]);
    expect(await failedWith(Array.from({ length: MAX_BATCH_LINES + 1 }, () => '{}'))).toEqual([
      ['too_many_lines', null],
    ]);
    const spaces = ' '.repeat(1_000_000);
    expect(await failedWith(Array.from({ length: MAX_BATCH_BYTES / 1_000_000 }, () => spaces))).toEqual([
      ['input_too_large', null],
    ]);
  });

  it('keeps finished lines when it is cancelled, and lets running lines end', async () => {
    const { batches, order, calls } = start();
    const batch = await order([...requests(50), ...requests(2_000, 'slow')]);
    await expect.poll(() => done(batch)).toBeGreaterThan(50);
    expect(await batches.cancel(shared.caller.principal.account.id, batch.id)).toMatchObject({ status: 'cancelling' });
    const ended = await reached(batch, 'cancelled');
    expect(ended.counts).toEqual({ total: 2_050, completed: calls.length, failed: 0 });
    expect(calls.length).toBeLessThan(2_000);
    expect(await customIds(ended.outputFileId)).toHaveLength(calls.length);
    expect(ended.errorFileId).toBeNull();
    expect(await batches.cancel(shared.caller.principal.account.id, batch.id)).toMatchObject({ status: 'cancelled' });
  });

  it('expires at the end of its window with the lines that finished', async () => {
    const other = await createFileBed();
    const owner = await other.caller();
    const fake = createExecutor();
    const runner = other.runner(fake.executor);
    const batches = other.batches(runner);
    const { id } = await other.files.upload(owner.principal.account.id, {
      filename: 'in.jsonl',
      content: (async function* () {
        yield Buffer.from(requests(2_000, 'slow').join('\n'));
      })(),
      purpose: () => 'batch',
    });
    const batch = await batches.create(owner.principal, {
      inputFileId: id,
      endpoint: '/v1/embeddings',
      completionWindow: '1h',
      metadata: null,
    });
    runner.start();
    await expect.poll(() => fake.calls.length).toBeGreaterThan(10);
    other.advance(3_600_000);
    await expect.poll(async () => (await other.store.batches.get(batch.id))?.status).toBe('expired');
    const { counts, errorFileId } = (await other.store.batches.get(batch.id)) as Batch;
    expect(counts).toEqual({ total: 2_000, completed: fake.calls.length, failed: 2_000 - fake.calls.length });
    const failed = (
      await text(await other.files.open(await other.files.get(owner.principal.account.id, errorFileId ?? '')))
    )
      .trimEnd()
      .split('\n');
    expect(failed).toHaveLength(counts.failed);
    expect(JSON.parse(failed[0] ?? '')).toMatchObject({ response: null, error: { code: 'batch_expired' } });
    await other.close();
  });
});
