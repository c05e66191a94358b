import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Batch } from '../../src/domain/batch.ts';
import { MAX_BATCH_BYTES, MAX_BATCH_LINES } from '../../src/domain/batch-line.ts';
import { errors } from '../../src/errors/errors.ts';
import type { LineExecutor } from '../../src/services/batches/line-run.ts';
import type { InferenceCall } from '../../src/services/inference.ts';
import { type Caller, createFileBed, type FileBed } from '../fixtures/file-bed.ts';

interface Line {
  custom_id: string | null;
  response: { status_code: number; request_id: string; body: Record<string, unknown> } | null;
  error: { code: string; message: string } | null;
}

/** Answers with the input, whose first word decides whether the line waits, is slow or fails. */
function createExecutor() {
  const calls: { input: string; call: InferenceCall }[] = [];
  let gate: Promise<void> | undefined;
  let open = () => {};
  let atWork = 0;
  let mostAtWork = 0;
  const executor: LineExecutor = {
    async execute(_endpoint, body, call) {
      const { input } = body as { input: string };
      const before = calls.filter((each) => each.input === input).length;
      calls.push({ input, call });
      atWork += 1;
      mostAtWork = Math.max(mostAtWork, atWork);
      try {
        if (input.startsWith('held') && gate !== undefined) {
          await Promise.race([
            gate,
            new Promise((_, reject) => call.signal.addEventListener('abort', () => reject(call.signal.reason))),
          ]);
        }
        // The later a line, the sooner it ends.
        for (let turn = 0; turn < 20 - (calls.length % 20); turn += 1) await new Promise(setImmediate);
        if (input.startsWith('slow')) await sleep(20);
        if (input === 'bad') throw errors.invalidParameter('input', 'bad input');
        if (input === 'busy' && before === 0) throw errors.capacityExceeded(1, 'busy');
        if (input.startsWith('limited') && gate !== undefined) throw errors.capacityExceeded(30, 'busy');
        if (input === 'broken' && before === 0) throw new Error('a fault');
        return Buffer.from(JSON.stringify({ echo: input }));
      } finally {
        atWork -= 1;
      }
    },
  };
  return {
    executor,
    calls,
    atWork: () => atWork,
    mostAtWork: () => mostAtWork,
    forgetMost: () => {
      mostAtWork = atWork;
    },
    hold() {
      gate = new Promise((resolve) => {
        open = resolve;
      });
    },
    release() {
      gate = undefined;
      open();
    },
  };
}

const request = (customId: string, input: string) =>
  JSON.stringify({ custom_id: customId, method: 'POST', url: '/v1/embeddings', body: { model: 'm', input } });
const requests = (count: number, input = 'text') =>
  Array.from({ length: count }, (_, index) => request(`${input}-${index}`, `${input} ${index}`));

describe('batches', () => {
  let bed: FileBed;
  let caller: Caller;
  beforeAll(async () => {
    bed = await createFileBed({ maxBytes: 1_000_000_000 });
    caller = await bed.caller();
  });
  afterEach(() => bed.stopRunners());
  afterAll(() => bed.close());

  const upload = (lines: readonly string[], { principal } = caller) =>
    bed.files.upload(principal.account.id, {
      filename: 'in.jsonl',
      content: (async function* () {
        yield Buffer.from(lines.join('\n'));
      })(),
      purpose: () => 'batch',
    });

  function start(options: Parameters<FileBed['runner']>[1] = {}, fake = createExecutor()) {
    const runner = bed.runner(fake.executor, options);
    const batches = bed.batches(runner);
    runner.start();
    async function order(lines: readonly string[], who = caller): Promise<Batch> {
      const { id } = await upload(lines, who);
      const command = { inputFileId: id, endpoint: '/v1/embeddings', completionWindow: '24h', metadata: null } as const;
      return batches.create(who.principal, command);
    }
    return { runner, batches, order, ...fake };
  }
  const current = async ({ id }: Batch) => (await bed.store.batches.get(id)) as Batch;
  const reached = async (batch: Batch, status: Batch['status']) => {
    await expect.poll(async () => (await current(batch)).status).toBe(status);
    return current(batch);
  };
  const done = async (batch: Batch) => {
    const { completed, failed } = (await current(batch)).counts;
    return completed + failed;
  };
  async function lines(id: string | null, { principal } = caller): Promise<Line[]> {
    if (id === null) return [];
    const content = await text(await bed.files.open(await bed.files.get(principal.account.id, id)));
    return content
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
  }
  const customIds = async (id: string | null, who = caller) => (await lines(id, who)).map((line) => line.custom_id);

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
    const groups = async () => (await bed.blobFiles()).filter((name) => name.includes('/batches/'));
    await expect.poll(groups).toEqual([]);
    expect(await bed.store.files.attached(batch.id)).toBeUndefined();
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

  it('continues after a restart without running a recorded line again', async () => {
    const first = start();
    first.hold();
    const batch = await first.order([...requests(300), ...requests(20, 'held')]);
    await expect.poll(() => done(batch)).toBe(300);
    await first.runner.stop(0);
    expect(await current(batch)).toMatchObject({ status: 'in_progress', outputFileId: null });

    const second = start();
    const { counts, outputFileId } = await reached(batch, 'completed');
    expect(counts).toEqual({ total: 320, completed: 320, failed: 0 });
    const found = await customIds(outputFileId);
    expect(found).toHaveLength(320);
    expect(new Set(found).size).toBe(320);
    expect(second.calls.map(({ input }) => input.split(' ')[0])).toEqual(Array.from({ length: 20 }, () => 'held'));
    // A line that began before the restart has the same name in the books.
    const billed = new Set(first.calls.map(({ call }) => call.billingId));
    expect(second.calls.filter(({ call }) => billed.has(call.billingId)).length).toBeGreaterThan(0);
  });

  it('stops work on a batch that another process has taken over', async () => {
    const { runner, order, hold, release, atWork, calls } = start();
    hold();
    const batch = await order([...requests(10), ...requests(5, 'held')]);
    await expect.poll(() => done(batch)).toBe(10);
    await expect.poll(atWork).toBe(5);
    await bed.store.batches.releaseOthers('other');
    const claim = { now: bed.now(), leaseUntil: bed.now() + 60_000, limit: 9, perAccount: 9, holding: [] };
    expect(await bed.store.batches.claim({ ...claim, ownerId: 'other' })).toMatchObject([{ id: batch.id }]);
    await runner.renewLeases(bed.now() + 15_000);
    await expect.poll(atWork).toBe(0);
    release();
    expect(await current(batch)).toMatchObject({ status: 'in_progress', counts: { completed: 10 } });
    expect(calls).toHaveLength(15);
    // The other process gives it back.
    await bed.store.batches.release({ id: batch.id, ownerId: 'other' }, bed.now());
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 15, completed: 15, failed: 0 });
  });

  it('shares batches among processes, so that every line runs once', async () => {
    const [one, two] = [start(), start()];
    const others = await Promise.all([bed.caller(), bed.caller(), bed.caller()]);
    const batches = await Promise.all(
      Array.from({ length: 12 }, (_, index) => one.order(requests(20, `slow ${index}`), others[index % 3])),
    );
    for (const batch of batches) {
      expect((await reached(batch, 'completed')).counts).toEqual({ total: 20, completed: 20, failed: 0 });
    }
    const inputs = [...one.calls, ...two.calls].map(({ input }) => input);
    expect(inputs).toHaveLength(240);
    expect(new Set(inputs).size).toBe(240);
    expect(two.calls.length).toBeGreaterThan(0);
  });

  it('starts over when the restart comes during validation', async () => {
    const { id: inputFileId } = await upload([request('a', 'x'), 'bad line', request('b', 'y')]);
    const idle = bed.runner(createExecutor().executor);
    const batch = await bed.batches(idle).create(caller.principal, {
      inputFileId,
      endpoint: '/v1/embeddings',
      completionWindow: '24h',
      metadata: null,
    });
    const claim = { now: 0, leaseUntil: 1, limit: 1, perAccount: 1, holding: [] };
    await bed.store.batches.claim({ ...claim, ownerId: 'ended' });
    const owned = { id: batch.id, ownerId: 'ended' };
    await bed.store.batches.record(owned, [{ line: 2, failed: true, blobKey: 'batches/x', offset: 0, bytes: 1 }]);
    start();
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 3, completed: 2, failed: 1 });
  });

  it('keeps finished lines when it is cancelled, and lets running lines end', async () => {
    const { batches, order, calls } = start();
    const batch = await order([...requests(50), ...requests(2_000, 'slow')]);
    await expect.poll(() => done(batch)).toBeGreaterThan(50);
    expect(await batches.cancel(caller.principal.account.id, batch.id)).toMatchObject({ status: 'cancelling' });
    const ended = await reached(batch, 'cancelled');
    expect(ended.counts).toEqual({ total: 2_050, completed: calls.length, failed: 0 });
    expect(calls.length).toBeLessThan(2_000);
    expect(await customIds(ended.outputFileId)).toHaveLength(calls.length);
    expect(ended.errorFileId).toBeNull();
    expect(await batches.cancel(caller.principal.account.id, batch.id)).toMatchObject({ status: 'cancelled' });
  });

  it('sees within a second that another process has cancelled a batch', async () => {
    const { order, hold, release, atWork } = start();
    hold();
    const batch = await order(requests(30, 'held'));
    await expect.poll(atWork).toBe(8);
    await bed.store.batches.cancel(batch.id, bed.now());
    release();
    await reached(batch, 'cancelled');
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

  it('waits for running lines when reading its input fails, and runs none of them twice', async () => {
    let opened = 0;
    const open: FileBed['files']['open'] = async (file, range) => {
      const stream = await bed.files.open(file, range);
      opened += 1;
      if (opened !== 2) return stream;
      const part = (await text(stream)).split('\n').slice(0, 4);
      const broken = async function* () {
        yield Buffer.from(`${part.join('\n')}\n`);
        throw new Error('the disk is gone');
      };
      return Readable.from(broken());
    };
    const { order, calls, hold, release, atWork } = start({ open });
    hold();
    const batch = await order(requests(12, 'held'));
    await expect.poll(atWork).toBe(4);
    // Later than it would be taken up again.
    bed.advance(10_000);
    await reached(await order(requests(3)), 'completed');
    expect(calls.filter(({ input }) => input.startsWith('held'))).toHaveLength(4);
    release();
    await expect.poll(() => done(batch)).toBe(4);
    bed.advance(10_000);
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 12, completed: 12, failed: 0 });
    expect(calls.filter(({ input }) => input.startsWith('held'))).toHaveLength(12);
  });

  it('ends although its input can no longer be read', async () => {
    const other = await createFileBed();
    const owner = await other.caller();
    let readable = true;
    const open: FileBed['files']['open'] = async (file, range) => {
      if (readable) return other.files.open(file, range);
      throw new Error('the disk is gone');
    };
    const fake = createExecutor();
    const runner = other.runner(fake.executor, { open });
    const batches = other.batches(runner);
    const order = async () => {
      const { id } = await other.files.upload(owner.principal.account.id, {
        filename: 'in.jsonl',
        content: (async function* () {
          yield Buffer.from(requests(20, 'held').join('\n'));
        })(),
        purpose: () => 'batch',
      });
      const command = { inputFileId: id, endpoint: '/v1/embeddings', completionWindow: '1h', metadata: null } as const;
      return batches.create(owner.principal, command);
    };
    const statusOf = async ({ id }: Batch) => (await other.store.batches.get(id))?.status;
    fake.hold();
    runner.start();
    const begun = await order();
    await expect.poll(fake.atWork).toBe(8);
    readable = false;
    const unread = await order();
    other.advance(3_600_000);
    fake.release();
    await expect.poll(() => statusOf(unread)).toBe('expired');
    await expect.poll(() => statusOf(begun)).toBe('expired');
    const { counts, outputFileId } = (await other.store.batches.get(begun.id)) as Batch;
    expect(counts).toEqual({ total: 20, completed: fake.calls.length, failed: 0 });
    expect(outputFileId).not.toBeNull();
    await other.close();
  });

  it('keeps finished lines when its input is gone', async () => {
    const first = start();
    first.hold();
    const batch = await first.order([...requests(5), ...requests(3, 'held')]);
    await expect.poll(() => done(batch)).toBe(5);
    await first.runner.stop(0);
    const input = await bed.files.get(caller.principal.account.id, batch.inputFileId);
    await bed.blobs.delete(input.blobKey);
    start();
    const ended = await reached(batch, 'failed');
    expect(ended.problems.map(({ code }) => code)).toEqual(['input_file_gone']);
    expect(await customIds(ended.outputFileId)).toHaveLength(5);
  });

  it('waits with new batches while the disk is low on space', async () => {
    const status = { freeBytes: 1, reserveBytes: 2, isLow: true };
    let asked = 0;
    const space = {
      status: async () => {
        asked += 1;
        return status;
      },
    };
    const { order, calls, runner } = start({ space });
    const batch = await order(requests(3));
    await expect.poll(() => asked).toBeGreaterThan(1);
    expect((await current(batch)).status).toBe('validating');
    expect(calls).toEqual([]);
    status.isLow = false;
    runner.wake();
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 3, completed: 3, failed: 0 });
  });

  it('fails the rest when the key is revoked', async () => {
    const { order, hold, release, atWork } = start();
    const owner = await bed.caller();
    hold();
    const batch = await order([...requests(8, 'held'), ...requests(10, 'late')], owner);
    await expect.poll(atWork).toBe(8);
    await bed.store.keys.update(owner.principal.key.id, { revokedAt: Date.now() });
    bed.advance(2_000);
    release();
    const ended = await reached(batch, 'completed');
    expect(ended.counts).toEqual({ total: 18, completed: 8, failed: 10 });
    const failed = await lines(ended.errorFileId, owner);
    expect(failed[0]?.response).toMatchObject({ status_code: 403, body: { error: { code: 'key_revoked' } } });
  });

  it.each(['embeddings', 'batches'] as const)('fails the rest when the key loses the scope %s', async (lost) => {
    const { order, hold, release, atWork } = start();
    const owner = await bed.caller();
    hold();
    const batch = await order([...requests(8, 'held'), ...requests(10, 'late')], owner);
    await expect.poll(atWork).toBe(8);
    const { id, scopes } = owner.principal.key;
    await bed.store.keys.update(id, { scopes: scopes.filter((scope) => scope !== lost) });
    bed.advance(2_000);
    release();
    const ended = await reached(batch, 'completed');
    expect(ended.counts).toEqual({ total: 18, completed: 8, failed: 10 });
    const failed = await lines(ended.errorFileId, owner);
    expect(failed[0]?.response).toMatchObject({
      status_code: 403,
      body: { error: { code: 'insufficient_scope', message: expect.stringContaining(`'${lost}'`) } },
    });
  });

  it('retries after a full queue and after a server error', async () => {
    const { order, calls } = start();
    const batch = await order([request('a', 'busy'), request('b', 'broken'), request('c', 'fine')]);
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 3, completed: 3, failed: 0 });
    expect(calls.filter(({ input }) => input === 'busy')).toHaveLength(2);
    expect(calls.filter(({ input }) => input === 'broken')).toHaveLength(2);
  });

  it('does not make one account wait behind the long batch of another', async () => {
    const { order, atWork } = start({ concurrency: 4 });
    const long = await order(requests(600, 'slow'));
    await expect.poll(atWork).toBe(4);
    const other = await bed.caller();
    const short = await order(requests(60, 'slow'), other);
    await reached(short, 'completed');
    // Half of the places were the other's: 60 lines of its own, and hardly more of the first one.
    expect((await current(long)).status).toBe('in_progress');
    expect(await done(long)).toBeLessThan(300);
    await reached(long, 'completed');
  });

  it('does not let an account with a thousand waiting batches delay another', async () => {
    const [flooding, other] = [await bed.caller(), await bed.caller()];
    const { id: inputFileId } = await upload(requests(1, 'held'), flooding);
    const idle = bed.runner(createExecutor().executor);
    const command = { inputFileId, endpoint: '/v1/embeddings', completionWindow: '24h', metadata: null } as const;
    const first = await bed.batches(idle).create(flooding.principal, command);
    for (let index = 0; index < 1_005; index += 1) {
      await bed.store.batches.create({ ...first, id: `${first.id}_${index.toString().padStart(4, '0')}` }, 0);
    }
    const { order, hold } = start();
    hold();
    const batch = await order(requests(3), other);
    expect((await reached(batch, 'completed')).counts.completed).toBe(3);
    expect((await current(first)).status).not.toBe('completed');
    await bed.stopRunners();
    for (const { id } of await bed.store.batches.list({ accountId: flooding.principal.account.id, limit: 2_000 })) {
      await bed.store.batches.cancel(id, bed.now());
    }
  });

  it('makes room for an account that has none at work when all others are slow', async () => {
    const { order, hold, release } = start();
    hold();
    const slow = await Promise.all([bed.caller(), bed.caller(), bed.caller(), bed.caller()]);
    const held = await Promise.all(
      slow.flatMap((owner) => [0, 1].map((index) => order(requests(2, `limited ${index}`), owner))),
    );
    for (const batch of held) await reached(batch, 'in_progress');
    const waiting = await order(requests(3), await bed.caller());
    expect((await current(waiting)).status).toBe('validating');
    bed.advance(30_000);
    await reached(waiting, 'completed');
    release();
    for (const batch of held) expect((await current(batch)).status).toBe('in_progress');
    await bed.stopRunners();
    start();
    for (const batch of held) await reached(batch, 'completed');
  });

  it('refuses more batches of an account than may be active', async () => {
    const owner = await bed.caller();
    const { order, hold, release } = start();
    hold();
    const batches = await Promise.all(Array.from({ length: 20 }, () => order(requests(1, 'held'), owner)));
    await expect(order(requests(1), owner)).rejects.toMatchObject({
      code: 'capacity_exceeded',
      status: 429,
      message: expect.stringContaining('20 batches that have not ended'),
    });
    release();
    await expect.poll(async () => (await current(batches[0] as Batch)).status).toBe('completed');
    await order(requests(1), owner);
  });

  it('runs one line at a time while there are interactive requests', async () => {
    let interactive = 5;
    const { order, calls, mostAtWork, forgetMost } = start({ concurrency: 16, interactive: () => interactive });
    const batch = await order(requests(400, 'slow'));
    const mostOfTheNext = async (count: number) => {
      forgetMost();
      const from = calls.length;
      await expect.poll(() => calls.length, { interval: 5 }).toBeGreaterThan(from + count);
      return mostAtWork();
    };
    await expect.poll(() => mostOfTheNext(5)).toBe(1);
    interactive = 0;
    await reached(batch, 'completed');
    expect(mostAtWork()).toBeGreaterThan(8);
  });

  it('reads its input to the end when the client deletes it meanwhile', async () => {
    const { order, hold, release, atWork } = start();
    hold();
    const batch = await order(requests(30, 'held'));
    await expect.poll(atWork).toBe(8);
    const input = await bed.files.get(caller.principal.account.id, batch.inputFileId);
    await bed.files.remove(caller.principal.account.id, input.id);
    expect(await bed.blobs.stat(input.blobKey)).toBeDefined();
    release();
    expect((await reached(batch, 'completed')).counts.completed).toBe(30);
    await expect.poll(() => bed.blobs.stat(input.blobKey)).toBeUndefined();
  });

  it('has the documented shape over HTTP, and refuses what it cannot run', async () => {
    const runner = bed.runner(createExecutor().executor);
    const server = await bed.server(bed.batches(runner));
    const post = async (url: string, body: object, who = caller) => {
      const headers = { authorization: who.authorization };
      const answer = await server.inject({ method: 'POST', url, headers, payload: body });
      return { status: answer.statusCode, body: answer.json() };
    };
    const get = async (url: string, who = caller) =>
      (await server.inject({ url, headers: { authorization: who.authorization } })).json();
    const { id: inputFileId } = await upload([request('a', 'x')]);
    const audio = await bed.files.upload(caller.principal.account.id, {
      filename: 'a.wav',
      content: (async function* () {})(),
      purpose: () => 'transcription',
    });
    const good = { input_file_id: inputFileId, endpoint: '/v1/embeddings', completion_window: '24h' };
    const { status, body } = await post('/batches', { ...good, metadata: { a: 'b' } });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(/^batch_[0-9a-z]{24}$/),
      object: 'batch',
      endpoint: '/v1/embeddings',
      input_file_id: inputFileId,
      completion_window: '24h',
      status: 'validating',
      created_at: expect.any(Number),
      expires_at: body.created_at + 86_400,
      request_counts: { total: 0, completed: 0, failed: 0 },
      metadata: { a: 'b' },
    });
    const embeddingsOnly = await bed.caller({ of: caller, scopes: ['batches', 'chat'] });
    const pairs = Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`k${index}`, 'v']));
    const cases: [object, Caller, string, string | null][] = [
      [{ ...good, input_file_id: undefined }, caller, 'missing_parameter', 'input_file_id'],
      [{ ...good, input_file_id: 'file_none' }, caller, 'file_not_found', 'input_file_id'],
      [{ ...good, input_file_id: audio.id }, caller, 'invalid_parameter', 'input_file_id'],
      [good, await bed.caller(), 'file_not_found', 'input_file_id'],
      [{ ...good, endpoint: '/v1/audio/transcriptions' }, caller, 'invalid_parameter', 'endpoint'],
      [{ ...good, completion_window: '24' }, caller, 'invalid_parameter', 'completion_window'],
      [{ ...good, metadata: pairs }, caller, 'invalid_parameter', 'metadata'],
      [good, embeddingsOnly, 'insufficient_scope', null],
      [good, await bed.caller({ of: caller, scopes: ['embeddings'] }), 'insufficient_scope', null],
    ];
    for (const [wrong, who, code, param] of cases) {
      expect((await post('/batches', wrong, who)).body.error, code).toMatchObject({ code, param });
    }
    expect(await get(`/batches/${body.id}`)).toEqual(body);
    expect((await get(`/batches/${body.id}`, await bed.caller())).error.code).toBe('batch_not_found');
    const page = await get('/batches?limit=1');
    expect(page).toMatchObject({ object: 'list', data: [{ id: body.id }], first_id: body.id, has_more: true });
    const second = await get(`/batches?limit=1&after=${page.last_id}`);
    expect(second.data[0].id < body.id).toBe(true);
    expect(await get('/batches', await bed.caller())).toEqual({ object: 'list', data: [], has_more: false });

    const cancelled = await post(`/batches/${body.id}/cancel`, {});
    expect(cancelled.body).toMatchObject({ status: 'cancelling', cancelling_at: expect.any(Number) });
    runner.start();
    await expect.poll(async () => (await get(`/batches/${body.id}`)).status).toBe('cancelled');
    expect((await post(`/batches/${second.data[0].id}/cancel`, {})).body.error.code).toBe('validation_failed');
  });
});
