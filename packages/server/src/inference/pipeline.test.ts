import { scriptedChat } from '@baobab/core/engine/testing/pulled-generation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { LedgerRow } from '@baobab/core/ports/ledger.ts';
import { describe, expect, it } from 'vitest';
import type { Bill, InferenceObserver } from './call.ts';
import { createChat } from './chat.ts';
import type { BilledWork } from './pipeline.ts';
import { ANY, noImages, setUp } from './testing/pipeline-setup.ts';
import { createTranscriptions } from './transcriptions.ts';

const billed = (rows: readonly LedgerRow[]) =>
  rows.map(({ billingId, completionTokens, status }) => [billingId, completionTokens, status]);

describe('inference', () => {
  it('bills a partial answer under its own id, so that a later run can be billed for the whole answer', async () => {
    const { rows, run } = setUp();
    const billingId = 'idem_1';
    await run({ billingId }, (session) => session.settle({ completionTokens: 3 }, { status: 499 }));
    await run({ billingId }, (session) => session.settle({ completionTokens: 9 }));
    // A crash came before the answer was kept: it was billed already.
    await run({ billingId }, (session) => session.settle({ completionTokens: 9 }));
    expect(billed(rows)).toEqual([
      ['req_0', 3, 499],
      ['idem_1', 9, 200],
    ]);
  });

  it('does not bill partial answers that the client does not get, but counts their tokens', async () => {
    const { rows, run } = setUp({ key: { tpm: 100 } });
    const line = { billingId: 'batch_1:1', wholeAnswersOnly: true };
    await run(line, (session) => session.settle({ completionTokens: 30 }, { status: 499 }));
    await run(line, (session) => session.settle({ completionTokens: 30 }, { status: 503 }));
    expect(rows).toEqual([]);
    await expect(run(line, async () => 0, 50)).rejects.toMatchObject({ code: 'tpm_exceeded' });
    await run(line, (session) => session.settle({ completionTokens: 40 }));
    expect(billed(rows)).toEqual([['batch_1:1', 40, 200]]);
  });

  it('bills what a client has cancelled if the client could read it', async () => {
    const { rows, run } = setUp();
    const background = { billingId: 'resp_1', wholeAnswersOnly: 'unless cancelled' as const };
    await run(background, (session) => session.settle({ completionTokens: 30 }, { status: 503 }));
    await run(background, (session) => session.settle({ completionTokens: 20 }, { status: 499 }));
    expect(billed(rows)).toEqual([['req_1', 20, 499]]);
  });

  it('does not begin while the store is away, and gives everything back when that takes too long', async () => {
    const returned = Promise.withResolvers<void>();
    let back: Promise<void> | undefined = returned.promise;
    const { steps, run } = setUp({ key: { concurrency: 1, tpm: 100 }, store: { back: () => back } });
    const waiting = run({}, async () => 'answered', 100);
    await new Promise(setImmediate);
    expect(steps).toEqual([]);
    returned.reject(new StoreUnavailableError('gone'));
    await expect(waiting).rejects.toThrow('gone');
    back = undefined;
    expect(await run({}, async () => 'answered', 100)).toBe('answered');
  });

  it('gives everything back when the observer throws', async () => {
    const { run } = setUp({ key: { concurrency: 1, tpm: 100 } });
    const observer = {
      decided() {
        throw new Error('the reply is gone');
      },
    };
    await expect(run({ observer }, async () => 0, 100)).rejects.toThrow('the reply is gone');
    expect(await run({}, async () => 'admitted', 100)).toBe('admitted');
  });

  it('is idle only when everything used is in the ledger', async () => {
    const { rows, ledger, run, inference } = setUp();
    const { promise, resolve } = Promise.withResolvers<void>();
    ledger.held = promise;
    const cut = run({}, async (session) => {
      await session.settle({ completionTokens: 1 }, { status: 499 });
      throw errors.clientCancelled();
    });
    const idle = inference.idle().then(() => rows.length);
    resolve();
    await expect(cut).rejects.toMatchObject({ code: 'client_cancelled' });
    expect(await idle).toBe(1);
  });

  it('counts requests without a pin in its own region, wherever they are served', async () => {
    const { rows, run } = setUp({ key: { rpm: 1 } });
    await run({}, (session) => session.settle({ completionTokens: 1 }, { region: 'eu-1' }));
    expect(rows[0]?.region).toBe('eu-1');
    await expect(run({ regionPin: 'local' }, async () => 0)).rejects.toMatchObject({ code: 'rpm_exceeded' });
    expect(await run({ regionPin: 'eu-1' }, async () => 'admitted')).toBe('admitted');
  });
});

describe('the stages', () => {
  it('stand in order, and nothing is read for a request that is refused', async () => {
    const { steps, rows, inference, call } = setUp({ key: { rpm: 1 } });
    const work: BilledWork<void> = {
      modality: 'chat',
      model: 'acme/one',
      bound() {
        steps.push('bound');
        return { tokens: 0, most: ANY };
      },
      async read() {
        steps.push('read');
        return { [Symbol.dispose]: () => void steps.push('forget') };
      },
      async run(session) {
        steps.push('run');
        await session.settle({ completionTokens: 1 });
        steps.push(`settled ${rows.length}`);
      },
    };
    const observer: InferenceObserver = {
      decided: ({ requests }) => void steps.push(`decided, ${requests.remaining} left`),
      settled: ({ slug, costNanoUsd }) => void steps.push(`bill of ${costNanoUsd} for ${slug}`),
      ended: () => void steps.push('ended'),
    };
    await inference.run(call({ observer }), work);
    await inference.idle();
    expect(steps.splice(0)).toEqual([
      ...['bound', 'decided, 0 left', 'read', 'bound', 'acquire acme/one', 'run'],
      ...['bill of 1000 for acme/one', 'settled 1', 'release acme/one', 'forget', 'ended'],
    ]);
    await expect(inference.run(call({ observer }), work)).rejects.toMatchObject({ code: 'rpm_exceeded' });
    await inference.idle();
    expect(steps).toEqual(['bound', 'decided, 0 left', 'ended']);
  });
});

describe('a fallback', () => {
  const away = () => errors.modelUnavailable('acme/one', 'its upstream is away');
  const used = { promptTokens: 0, completionTokens: 5 };
  const work = (run: BilledWork<string>['run'], most = 0): BilledWork<string> => ({
    ...{ modality: 'chat', model: 'acme/one', fallbacks: ['acme/two'], run },
    bound: () => ({ tokens: most, most: { promptTokens: 0, completionTokens: Math.max(most, 100) } }),
    reserve: () => ({ completionTokens: most }),
  });

  it('answers when the model before it cannot, and is billed at its own price', async () => {
    const { rows, steps, inference, call } = setUp();
    const bills: Bill[] = [];
    let runs = 0;
    const answer = await inference.run(
      call({ observer: { settled: (bill) => void bills.push(bill) } }),
      work(async (session) => {
        runs += 1;
        if (runs === 1) throw away();
        await session.settle(used);
        return 'answer';
      }),
    );
    expect(answer).toBe('answer');
    expect(steps).toEqual(['acquire acme/one', 'release acme/one', 'acquire acme/two', 'release acme/two']);
    expect(rows).toMatchObject([{ model: 'acme/two', completionTokens: 5, costNanoUsd: 50_000, status: 200 }]);
    expect(bills).toMatchObject([{ slug: 'acme/two', costNanoUsd: 50_000 }]);
  });

  it('has its price reserved from the start', async () => {
    const { inference, call } = setUp({ key: { monthlyBudgetNanoUsd: 9_000 } });
    const cheap = work(async () => 'ran', 5);
    await expect(inference.run(call(), cheap)).rejects.toMatchObject({ code: 'budget_exceeded' });
    expect(await inference.run(call(), { ...cheap, fallbacks: [] })).toBe('ran');
  });

  it("does not answer after a failure that is the client's, after the first token, or for a client that has left", async () => {
    const { rows, steps, inference, call } = setUp();
    const failing = (run: BilledWork<string>['run'], signal = new AbortController().signal) =>
      expect(inference.run(call({ signal }), work(run))).rejects.toThrow();
    await failing(async () => {
      throw errors.contextTooLong(['messages'], 9, 8);
    });
    await failing(async (session) => {
      session.noteFirstToken();
      throw away();
    });
    await failing(async (session) => {
      await session.settle(used, { status: 503 });
      throw away();
    });
    await failing(async () => {
      throw away();
    }, AbortSignal.abort());
    expect(steps).not.toContain('acquire acme/two');
    expect(rows).toMatchObject([{ model: 'acme/one', status: 503 }]);
  });

  it('is the last: its failure is the answer', async () => {
    const { rows, inference, call } = setUp();
    const broken = work(async () => {
      throw away();
    });
    await expect(inference.run(call(), broken)).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(rows).toEqual([]);
  });
});

describe('estimates', () => {
  it('reserve all of max_tokens in a budget, at the price of completions', async () => {
    const started = Promise.withResolvers<void>();
    const end = Promise.withResolvers<void>();
    const chat = scriptedChat(
      async function* () {
        started.resolve();
        await end.promise;
        yield* [];
      },
      { promptTokens: 1, completionTokens: 100, cachedTokens: 0 },
    );
    const { call, inference, rows } = setUp({
      key: { monthlyBudgetNanoUsd: 250_000 },
      engine: { chat },
    });
    const service = createChat({ inference, images: noImages, documents: { read: async () => [] } });
    const ask = (maxTokens: number) =>
      service.generate(
        call(),
        { model: 'acme/one', choices: 1, request: { prompt: { text: 'hi' }, maxTokens } as never },
        () => {},
      );
    const running = [ask(100), ask(100)];
    await started.promise;
    // 200 of 250 are reserved, although nothing is spent.
    await expect(ask(100)).rejects.toMatchObject({ code: 'budget_exceeded', retryAfterSeconds: 1 });
    end.resolve();
    await Promise.all(running);
    expect(rows.reduce((sum, row) => sum + row.costNanoUsd, 0)).toBeLessThanOrEqual(250_000);
  });

  it('count the arguments of tool calls, so that many requests at once keep within a budget', async () => {
    const held = Promise.withResolvers<void>();
    const chat = scriptedChat(
      async function* () {
        await held.promise;
        yield { type: 'text-delta', text: '' };
      },
      { promptTokens: 25_000, completionTokens: 0, cachedTokens: 0 },
    );
    const { call, inference, rows } = setUp({
      // Each may use the whole context, and has a token of 1 000.
      key: { monthlyBudgetNanoUsd: 70_000 },
      engine: { chat },
    });
    const service = createChat({ inference, images: noImages, documents: { read: async () => [] } });
    const toolCalls = [{ id: 'call', name: 'look', arguments: 'x'.repeat(100_000) }];
    const prompt = { messages: [{ role: 'assistant' as const, content: '', toolCalls }] };
    const ask = () =>
      service.generate(call(), { model: 'acme/one', choices: 1, request: { prompt, maxTokens: 1 } }, () => {});
    const requests = Array.from({ length: 40 }, ask);
    held.resolve();
    const ended = await Promise.allSettled(requests);
    expect(ended.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
    expect(rows.reduce((sum, row) => sum + row.costNanoUsd, 0)).toBe(50_000);
  });

  it('of audio use its size, and its tokens are those of the text', async () => {
    const segment = { text: 'a b c', tokens: Array.from({ length: 150 }, () => 1) };
    let held: Promise<void> | undefined;
    const { call, inference, rows } = setUp({
      key: { monthlyBudgetNanoUsd: 70_000, tpm: 320 },
      engine: { transcription: { transcribe: async () => ({ language: 'en', segments: [] }) } },
    });
    const audio = createTranscriptions({
      inference,
      windowed: {
        transcribe: () => ({
          secondsSoFar: () => 20,
          async *[Symbol.asyncIterator]() {
            await held;
            yield { type: 'segment', segment, delta: '' } as never;
            yield { type: 'done', durationSeconds: 20 } as never;
          },
        }),
      },
    });
    const ask = (seconds: number) =>
      audio.transcribe(call(), {
        model: 'acme/one',
        bytes: seconds * 16_000,
        source: async () => undefined,
        options: {},
      });
    const { promise, resolve } = Promise.withResolvers<void>();
    held = promise;
    const running = ask(40);
    await expect(ask(40)).rejects.toMatchObject({ code: 'budget_exceeded' });
    resolve();
    await running;
    expect(rows.map(({ audioSeconds, promptTokens }) => [audioSeconds, promptTokens])).toEqual([[20, 0]]);
    // 150 of 320 tokens are used: 40 seconds are held to be 160, 45 to be 180.
    await expect(ask(45)).rejects.toMatchObject({ code: 'tpm_exceeded' });
    await ask(40);
  });
});
