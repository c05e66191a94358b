import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import type { Batch } from '../../../packages/core/src/domain/batch.ts';
import { errors } from '../../../packages/core/src/errors/errors.ts';
import { StoreUnavailableError } from '../../../packages/core/src/errors/store-unavailable.ts';
import type { InferenceCall } from '../../../packages/server/src/inference/call.ts';
import type { LineExecutor } from '../../../packages/server/src/services/batches/line-run.ts';
import { type Caller, createFileBed, type FileBed } from '../../fixtures/file-bed.ts';

interface Line {
  custom_id: string | null;
  response: { status_code: number; request_id: string; body: Record<string, unknown> } | null;
  error: { code: string; message: string } | null;
}

/** Answers with the input, whose first word decides whether the line waits, is slow or fails. */
export function createExecutor() {
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
        if (input === 'outage' && before < 4) throw new StoreUnavailableError('PostgreSQL does not answer.');
        if (input === 'engine away' && before < 4)
          throw errors.upstreamsAway('a/b', 'none of its upstreams is healthy');
        // Fails for a reason of its own when the store is back.
        if (input === 'outage' && before < 5) throw new Error('a fault');
        return Buffer.from(JSON.stringify({ echo: input }));
      } finally {
        atWork -= 1;
      }
    },
    errorBody: (_endpoint, error) => Buffer.from(JSON.stringify(error.toBody())),
    statusOf: ({ status }) => status,
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

export const request = (customId: string, input: string, model = 'm') =>
  JSON.stringify({ custom_id: customId, method: 'POST', url: '/v1/embeddings', body: { model, input } });
export const requests = (count: number, input = 'text') =>
  Array.from({ length: count }, (_, index) => request(`${input}-${index}`, `${input} ${index}`));

/** One store and one runner's bed for the tests of a file. Registers the hooks that open and close it. */
export function useBatchBed() {
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
  return {
    get bed() {
      return bed;
    },
    get caller() {
      return caller;
    },
    upload,
    start,
    current,
    reached,
    done,
    lines,
    customIds,
  };
}
