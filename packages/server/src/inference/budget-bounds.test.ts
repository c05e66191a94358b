import type { ChatEvent, EngineModel } from '@baobab/core/engine/engine.ts';
import { scriptedChat } from '@baobab/core/engine/testing/pulled-generation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { describe, expect, it } from 'vitest';
import { createChat } from './chat.ts';
import type { ChatCommand } from './chat-prompt.ts';
import { createEmbeddings } from './embeddings.ts';
import { createRerank } from './rerank.ts';
import { noImages, setUp, spentIn } from './testing/pipeline-setup.ts';
import { createTranscriptions } from './transcriptions.ts';
import { createWindowedTranscription } from './windowed-transcription.ts';

const fulfilled = (ended: readonly PromiseSettledResult<unknown>[]) =>
  ended.filter(({ status }) => status === 'fulfilled').length;
const noDocuments = { read: async () => [] };

/** Every request runs until `release` is called, so that all of them hold their reservations at the same time. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { held: promise, release: resolve };
}

const openChat = (text: string, changes: Partial<ChatCommand['request']> = {}): ChatCommand => ({
  model: 'acme/one',
  choices: 1,
  request: { prompt: { messages: [{ role: 'user', content: text }] }, ...changes },
});

/** Writes tokens until it is stopped or has written so many. */
const writer = (tokens: number, promptTokens = 1): Partial<EngineModel> => ({
  chat: {
    async generate(_request, _context, sink) {
      const usage = { promptTokens, completionTokens: 0, cachedTokens: 0 };
      sink.used({ ...usage });
      await sink.deliver({ type: 'start', promptTokens, cachedTokens: 0 });
      for (let token = 0; token < tokens; token += 1) {
        usage.completionTokens += 1;
        sink.used({ ...usage });
        await sink.deliver({ type: 'text-delta', text: 'x' });
      }
      await sink.deliver({ type: 'end', reason: 'stop', usage });
    },
  },
});

/** 500 dollars for a million tokens of a prompt, 1 000 of an answer: $0.0005 and $0.001 for a token. */
const DEAR = { promptPerMillion: 500, completionPerMillion: 1_000, cacheReadPerMillion: 50, audioPerMinute: null };
const usd = (amount: number) => Math.round(amount * 1e9);

/** Transcribes audio of so many seconds, each of so many bytes. */
function audio(setting: Parameters<typeof setUp>[0], bytesPerSecond = 26) {
  const transcription = { transcribe: async () => ({ language: 'en', segments: [] }) };
  const { call, inference, rows } = setUp({ ...setting, engine: { transcription }, model: { modality: 'audio' } });
  const transcriptions = createTranscriptions({
    inference,
    windowed: createWindowedTranscription<number>({
      windowsAtOnce: 4,
      reader: {
        async *read(seconds, _context, mayDecode) {
          for (let decoded = 1; decoded <= seconds; decoded += 1) {
            if (mayDecode !== undefined && !(await mayDecode(decoded))) return { durationSeconds: decoded - 1 };
            if (decoded % 30 === 0) yield { startSeconds: decoded - 30, samples: new Float32Array(480_000) };
          }
          return { durationSeconds: seconds };
        },
      },
    }),
  });
  const ask = (seconds: number) =>
    transcriptions.transcribe(call(), {
      model: 'acme/one',
      source: async () => seconds,
      bytes: seconds * bytesPerSecond,
      options: {},
    });
  return { rows, ask };
}

describe('many requests at once keep within a budget', () => {
  it('whatever the characters of their text', async () => {
    const { held, release } = gate();
    const usage = { promptTokens: 817, completionTokens: 1, cachedTokens: 0 };
    const chat = scriptedChat(async function* () {
      await held;
      yield { type: 'end', reason: 'length', usage };
    }, usage);
    // Enough for eight if a digit were a quarter of a token.
    const { call, inference, rows } = setUp({ key: { monthlyBudgetNanoUsd: 9_700 }, engine: { chat } });
    const service = createChat({ inference, images: noImages, documents: noDocuments });
    const requests = Array.from({ length: 8 }, () =>
      service.generate(call(), openChat('8'.repeat(800), { maxTokens: 1 }), () => {}),
    );
    release();
    expect(fulfilled(await Promise.allSettled(requests))).toBe(5);
    expect(spentIn(rows)).toBe(5 * 1_817);
  });

  it('when a query is read again with each window of a document', async () => {
    const { held, release } = gate();
    const query = '7'.repeat(375);
    const documents = ['7'.repeat(4_323)];
    // A context of 512: windows of 133 tokens, 100 tokens apart, each with the query.
    const tokens = 43 * (375 + 4) + 4_323 + 42 * 33;
    const rerank = {
      rerank: async () => {
        await held;
        return { scores: new Float32Array(1), tokens };
      },
    };
    const { call, inference, rows } = setUp({
      key: { monthlyBudgetNanoUsd: 3 * tokens },
      engine: { rerank },
      model: { modality: 'rerank', contextLength: 512 },
    });
    const service = createRerank({ inference });
    const requests = Array.from({ length: 10 }, () =>
      service.rerank(call(), { model: 'acme/one', query, documents, topN: undefined }),
    );
    release();
    expect(fulfilled(await Promise.allSettled(requests))).toBe(2);
    expect(spentIn(rows)).toBe(2 * tokens);
  });

  it('when a small file holds hours of audio', async () => {
    const { rows, ask } = audio({ key: { monthlyBudgetNanoUsd: 150_000 } });
    const answers = await Promise.all([ask(600), ask(600), ask(600)]);
    expect(spentIn(rows)).toBeLessThanOrEqual(150_000);
    expect(answers.map(({ stoppedBy }) => stoppedBy)).toEqual(['budget', 'budget', 'budget']);
    const seconds = answers.map(({ billedSeconds }) => billedSeconds);
    expect(seconds.toSorted()).toEqual(rows.map(({ audioSeconds }) => audioSeconds).toSorted());
    expect(spentIn(rows)).toBeGreaterThan(135_000);
  });
});

it('audio that the budget can just pay is transcribed to its end', async () => {
  const { rows, ask } = audio({ key: { monthlyBudgetNanoUsd: 30_000 } });
  expect(await ask(26)).toMatchObject({ durationSeconds: 26, billedSeconds: 26, stoppedBy: undefined });
  expect(spentIn(rows)).toBe(26_000);
});

it.each([6, 7, 13, 100])('so is audio of %d seconds whose file looks longer than the budget', async (seconds) => {
  const { rows, ask } = audio({ key: { monthlyBudgetNanoUsd: seconds * 1_000 } }, 88_200);
  expect(await ask(seconds)).toMatchObject({ billedSeconds: seconds, stoppedBy: undefined });
  expect(spentIn(rows)).toBe(seconds * 1_000);
});

it('audio of which not even a second can be paid is not told to be shorter', async () => {
  const { ask } = audio({ key: { monthlyBudgetNanoUsd: 999 } });
  await expect(ask(1)).rejects.toMatchObject({
    code: 'budget_exceeded',
    message: expect.stringContaining('Even the least that this model bills costs 0.000001 USD: use a cheaper model'),
  });
});

describe('an open answer', () => {
  it('begins with a smaller step when the budget has no room for a whole one', async () => {
    const { call, inference, rows } = setUp({ key: { monthlyBudgetNanoUsd: 100_010 }, engine: writer(5_000) });
    const service = createChat({ inference, images: noImages, documents: noDocuments });
    const events: ChatEvent[] = [];
    await service.generate(call(), openChat('Hi'), (_choice, event) => void events.push(event));
    expect(events.at(-1)).toMatchObject({ type: 'end', reason: 'length', stoppedBy: 'budget' });
    expect(spentIn(rows)).toBeGreaterThan(99_000);
    expect(spentIn(rows)).toBeLessThanOrEqual(100_010);
  });

  it('keeps its smaller step when a document is read', async () => {
    const bed = setUp({ key: { monthlyBudgetNanoUsd: 70_000 }, engine: writer(5) });
    const service = createChat({ ...bed, images: noImages, documents: { read: async () => ['word '.repeat(1_000)] } });
    const documents = [{ source: { fileId: 'file_1' }, tag: 'file' as const, message: 0, at: 2, field: 'f' }];
    await service.generate(bed.call(), { ...openChat('Hi'), documents }, () => {});
    expect(bed.rows).toMatchObject([{ completionTokens: 5 }]);
  });

  it('waits for running requests instead, when what they reserve is all that is missing', async () => {
    const { held, release } = gate();
    const chat = scriptedChat(
      async function* () {
        await held;
        yield { type: 'end', reason: 'stop', usage: { promptTokens: 1, completionTokens: 1, cachedTokens: 0 } };
      },
      { promptTokens: 1, completionTokens: 1, cachedTokens: 0 },
    );
    const { call, inference } = setUp({ key: { monthlyBudgetNanoUsd: 600_000 }, engine: { chat } });
    const service = createChat({ inference, images: noImages, documents: noDocuments });
    const running = service.generate(call(), openChat('Hi'), () => {});
    await expect(service.generate(call(), openChat('Hi'), () => {})).rejects.toMatchObject({
      code: 'budget_exceeded',
      retryAfterSeconds: 1,
    });
    release();
    await running;
  });

  it('is reserved in steps, so that several run on a budget that could not pay the longest of one', async () => {
    const { call, inference, rows } = setUp({ key: { monthlyBudgetNanoUsd: 3_000_000 }, engine: writer(100) });
    const service = createChat({ inference, images: noImages, documents: noDocuments });
    const ask = () => service.generate(call(), openChat('Hi'), () => {});
    await Promise.all([ask(), ask(), ask(), ask(), ask()]);
    expect(spentIn(rows)).toBe(5 * 100_001);
  });

  it('ends as at a length limit when the budget is used up, and what was written is billed', async () => {
    const { call, inference, rows } = setUp({ key: { monthlyBudgetNanoUsd: 1_500_000 }, engine: writer(5_000) });
    const service = createChat({ inference, images: noImages, documents: noDocuments });
    const events: ChatEvent[] = [];
    const usage = await service.generate(call(), openChat('Hi'), (_choice, event) => void events.push(event));
    const end = events.at(-1);
    expect(end).toMatchObject({ type: 'end', reason: 'length', stoppedBy: 'budget' });
    const written = events.filter(({ type }) => type === 'text-delta').length;
    // But for a small part of the last step.
    expect(written).toBeGreaterThan(1_450);
    expect(rows).toMatchObject([{ status: 200, completionTokens: usage.completionTokens }]);
    expect(usage.completionTokens - written).toBeLessThanOrEqual(1);
    expect(spentIn(rows)).toBeLessThanOrEqual(1_500_000);
  });

  it('of several choices shares the steps among them', async () => {
    const { call, inference, rows } = setUp({ key: { monthlyBudgetNanoUsd: 1_500_000 }, engine: writer(5_000) });
    const service = createChat({ inference, images: noImages, documents: noDocuments });
    const ends: ChatEvent[] = [];
    await service.generate(call(), { ...openChat('Hi'), choices: 3 }, (_choice, event) => {
      if (event.type === 'end') ends.push(event);
    });
    expect(ends).toHaveLength(3);
    expect(ends.every((end) => end.type === 'end' && end.stoppedBy === 'budget')).toBe(true);
    expect(spentIn(rows)).toBeLessThanOrEqual(1_500_000);
  });

  it('ends by itself without a budget, and asks the counters for nothing', async () => {
    const { call, inference, rows } = setUp({ engine: writer(3_000) });
    const service = createChat({ inference, images: noImages, documents: noDocuments });
    await service.generate(call(), openChat('Hi'), () => {});
    expect(rows).toMatchObject([{ completionTokens: 3_000 }]);
  });

  it('is billed no more than the budget has, when most of the answer was hidden reasoning', async () => {
    const usage = { promptTokens: 1, completionTokens: 20_000, cachedTokens: 0 };
    const chat = scriptedChat(async function* () {
      yield { type: 'text-delta', text: 'x' };
      yield { type: 'end', reason: 'stop', usage };
    }, usage);
    const { call, inference, rows } = setUp({ key: { monthlyBudgetNanoUsd: 2_000_000 }, engine: { chat } });
    const service = createChat({ inference, images: noImages, documents: noDocuments });
    const answered = await service.generate(call(), openChat('Hi'), () => {});
    expect(spentIn(rows)).toBeLessThanOrEqual(2_000_000);
    expect(rows).toMatchObject([{ completionTokens: answered.completionTokens }]);
  });
});

describe('a model that runs here, whose template adds to the prompt', () => {
  const chatOf = (budgetUsd: number, engine: Partial<EngineModel>, spentUsd = 0) => {
    const bed = setUp({
      key: { monthlyBudgetNanoUsd: usd(budgetUsd) },
      engine,
      model: { pricing: DEAR },
      countsAreTrue: true,
      spentNanoUsd: BigInt(usd(spentUsd)),
    });
    return { ...bed, service: createChat({ inference: bed.inference, images: noImages, documents: noDocuments }) };
  };

  it('refuses a prompt that the budget cannot pay, before anything is written', async () => {
    const { service, call, rows } = chatOf(0.0125, writer(1, 31));
    const taken: ChatEvent[] = [];
    await expect(
      service.generate(call(), openChat('Hi', { maxTokens: 1 }), (_choice, event) => void taken.push(event)),
    ).rejects.toMatchObject({
      code: 'budget_exceeded',
      message: expect.stringContaining(
        'This request may cost 0.0165 USD now that its whole prompt is counted, but this key has 0.0125 USD of its ' +
          'monthly budget of 0.0125 USD left. Ask for less',
      ),
      // It would not pass in a second.
      retryAfterSeconds: expect.toSatisfy((seconds) => seconds > 86_400),
    });
    expect([taken, rows]).toEqual([[], []]);
  });

  it.each([0.0165, 0.02, 0.5])('bills and reports true counts with a budget of %d', async (budget) => {
    const { service, call, rows } = chatOf(budget, writer(1, 31));
    const usage = await service.generate(call(), openChat('Hi', { maxTokens: 1 }), () => {});
    expect(usage).toEqual({ promptTokens: 31, completionTokens: 1, cachedTokens: 0 });
    expect(rows).toMatchObject([{ promptTokens: 31, completionTokens: 1, costNanoUsd: usd(0.0165) }]);
  });

  it('reserves a prompt once for several answers, and less where it is cached', async () => {
    const usage = { promptTokens: 40, completionTokens: 1, cachedTokens: 20 };
    const chat = scriptedChat(async function* () {
      yield { type: 'start', promptTokens: 40, cachedTokens: 20 };
      yield { type: 'text-delta', text: 'x' };
      yield { type: 'end', reason: 'stop', usage };
    }, usage);
    const { service, call, rows } = chatOf(0.013, { chat });
    await service.generate(call(), { ...openChat('Hi', { maxTokens: 1 }), choices: 2 }, () => {});
    expect(rows).toMatchObject([{ promptTokens: 40, cacheReadTokens: 20, completionTokens: 2 }]);
  });

  it('is cut when no smallest step is left, not before: the text that was sent is billed', async () => {
    // Long words and a long prompt look like more tokens than they are.
    const chat: EngineModel['chat'] = {
      async generate(_request, _context, sink) {
        const counted = { promptTokens: 40, completionTokens: 0, cachedTokens: 0 };
        sink.used({ ...counted });
        await sink.deliver({ type: 'start', promptTokens: 40, cachedTokens: 0 });
        for (;;) {
          counted.completionTokens += 1;
          sink.used({ ...counted });
          await sink.deliver({ type: 'text-delta', text: 'internationally ' });
        }
      },
    };
    const { service, call, rows } = chatOf(0.62, { chat });
    const events: ChatEvent[] = [];
    const usage = await service.generate(
      call(),
      openChat('internationally '.repeat(5)),
      (_choice, event) => void events.push(event),
    );
    expect(events.at(-1)).toMatchObject({ type: 'end', reason: 'length', stoppedBy: 'budget', usage });
    expect(usage.completionTokens).toBe(events.filter(({ type }) => type === 'text-delta').length);
    // A smallest step is 32 tokens.
    expect(spentIn(rows)).toBeGreaterThan(usd(0.62 - 0.032));
    expect(spentIn(rows)).toBeLessThanOrEqual(usd(0.62));
  });

  it('says of an open answer that only its first step must be paid', async () => {
    const { service, call } = chatOf(0.03, writer(1, 31));
    await expect(service.generate(call(), openChat('Hi'), () => {})).rejects.toMatchObject({
      code: 'budget_exceeded',
      // The smallest one: 32 tokens.
      message: expect.stringContaining('The first step of this request may cost 0.0'),
    });
  });
});

describe('what an upstream reports', () => {
  const liar = (promptTokens: number, completionTokens: number) => {
    const usage = { promptTokens, completionTokens, cachedTokens: 2 * promptTokens };
    return scriptedChat(async function* () {
      yield { type: 'end', reason: 'stop', usage };
    }, usage);
  };

  it.each([1e9, 1e15])('is billed as far as it is possible: %d tokens', async (count) => {
    const { call, inference, rows } = setUp({ engine: { chat: liar(count, count) } });
    const service = createChat({ inference, images: noImages, documents: noDocuments });
    const usage = await service.generate(call(), { ...openChat('Hi', { maxTokens: 5 }), choices: 2 }, () => {});
    expect(rows).toMatchObject([{ completionTokens: 10 }]);
    expect(rows[0]?.promptTokens).toBeLessThan(2_100);
    expect(rows[0]?.cacheReadTokens).toBe(rows[0]?.promptTokens);
    expect(usage).toMatchObject({ promptTokens: rows[0]?.promptTokens, completionTokens: 10 });
  });

  it('of embeddings and ranking too', async () => {
    const embedding = {
      embed: async () => ({ vectors: new Float32Array(2), dimensions: 1, tokens: [1e15, 1e14] }),
    };
    const rerank = { rerank: async () => ({ scores: new Float32Array(1), tokens: 1e15 }) };
    const { call, inference, rows } = setUp({ engine: { embedding, rerank }, model: { contextLength: 512 } });
    const { answer } = await createEmbeddings({ inference, images: noImages }).embed(
      call(),
      { model: 'acme/one', inputs: ['a', 'b'.repeat(2_000)], dimensions: undefined },
      (_result, promptTokens) => promptTokens,
    );
    expect(answer).toBe(1 + 64 + 512);
    const ranked = await createRerank({ inference }).rerank(call(), {
      model: 'acme/one',
      query: 'q',
      documents: ['d'],
      topN: undefined,
    });
    expect(ranked.promptTokens).toBe(1 + 1 + 1 + 8);
    expect(rows.map(({ promptTokens }) => promptTokens)).toEqual([577, 11]);
  });
});

describe('a spent budget', () => {
  const chatOf = (setting: Parameters<typeof setUp>[0]) => {
    const read: string[] = [];
    const bed = setUp({ engine: writer(1), ...setting });
    const documents = {
      async read() {
        read.push('document');
        return ['word '.repeat(1_000)];
      },
    };
    return { ...bed, read, service: createChat({ inference: bed.inference, images: noImages, documents }) };
  };
  const withDocument: ChatCommand = {
    ...openChat('Hi', { maxTokens: 1 }),
    documents: [{ source: { fileId: 'file_1' }, tag: 'file', message: 0, at: 2, field: 'f' }],
  };

  it('refuses a request before its documents are read, as the request limit does', async () => {
    const poor = chatOf({ key: { monthlyBudgetNanoUsd: 100_000 }, spentNanoUsd: 100_000n });
    await expect(poor.service.generate(poor.call(), withDocument, () => {})).rejects.toMatchObject({
      code: 'budget_exceeded',
    });
    const slow = chatOf({ key: { rpm: 1 } });
    await slow.service.generate(slow.call(), withDocument, () => {});
    await expect(slow.service.generate(slow.call(), withDocument, () => {})).rejects.toMatchObject({
      code: 'rpm_exceeded',
    });
    expect([poor.read, slow.read]).toEqual([[], ['document']]);
  });

  it('lets free models and counts of tokens pass', async () => {
    const pricing = {
      promptPerMillion: 0,
      completionPerMillion: null,
      cacheReadPerMillion: null,
      audioPerMinute: null,
    };
    const free = chatOf({ key: { monthlyBudgetNanoUsd: 100_000 }, spentNanoUsd: 100_000n, model: { pricing } });
    await free.service.generate(free.call(), openChat('Hi'), () => {});
    expect(free.rows).toMatchObject([{ costNanoUsd: 0 }]);
    const poor = chatOf({ key: { monthlyBudgetNanoUsd: 100_000 }, spentNanoUsd: 100_000n });
    expect(await poor.service.countTokens(poor.call(), openChat('Hi'))).toBe(5);
  });

  it('refuses a document whose text it cannot pay, and gives back what was reserved', async () => {
    const { service, call, rows, read } = chatOf({ key: { monthlyBudgetNanoUsd: 5_000 } });
    await expect(service.generate(call(), withDocument, () => {})).rejects.toMatchObject({ code: 'budget_exceeded' });
    expect(read).toEqual(['document']);
    await service.generate(call(), openChat('Hi', { maxTokens: 4 }), () => {});
    expect(rows).toHaveLength(1);
  });

  it('is not the only limit of a document: its tokens count as well', async () => {
    const { service, call } = chatOf({ key: { tpm: 1_000 } });
    await service.generate(call(), openChat('Hi', { maxTokens: 4 }), () => {});
    await expect(service.generate(call(), withDocument, () => {})).rejects.toMatchObject({ code: 'tpm_exceeded' });
  });
});

it('a fallback writes within what was reserved for the first model', async () => {
  const { call, inference, rows } = setUp({ key: { monthlyBudgetNanoUsd: 1_000_000 } });
  let runs = 0;
  await inference.run(call(), {
    ...{ modality: 'chat', model: 'acme/one', fallbacks: ['acme/two'] },
    bound: () => ({ tokens: 0, most: { completionTokens: 1_000 } }),
    reserve: () => ({ completionTokens: 10 }),
    async run(session) {
      runs += 1;
      if (runs === 1) throw errors.modelUnavailable('acme/one', 'its upstream is away');
      await session.settle({ completionTokens: 500 });
    },
  });
  // The budget has 100 tokens at ten times the price.
  expect(rows).toMatchObject([{ model: 'acme/two' }]);
  expect(rows[0]?.completionTokens).toBeGreaterThan(90);
  expect(rows[0]?.completionTokens).toBeLessThanOrEqual(100);
});
