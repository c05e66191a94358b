import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import type { ChatEvent, EngineModel } from '../../packages/core/src/engine/engine.ts';
import type { Counters } from '../../packages/core/src/ports/counters.ts';
import type { LedgerRow } from '../../packages/core/src/ports/ledger.ts';
import { createMemoryCounters } from '../../packages/server/src/adapters/counters/memory.ts';
import { openRedisCounters, type RedisCounters } from '../../packages/server/src/adapters/counters/redis/counters.ts';
import { createChat } from '../../packages/server/src/inference/chat.ts';
import { createEmbeddings } from '../../packages/server/src/inference/embeddings.ts';
import { createRerank } from '../../packages/server/src/inference/rerank.ts';
import { noImages, setUp, spentIn } from '../../packages/server/src/inference/testing/pipeline-setup.ts';
import { createTranscriptions } from '../../packages/server/src/inference/transcriptions.ts';
import { createWindowedTranscription } from '../../packages/server/src/inference/windowed-transcription.ts';
import { newNamespace, redisMissing, redisUrl } from '../fixtures/redis-server.ts';

const REPLICAS = 2;

const text = fc.record({
  character: fc.constantFrom('a', '7', '#', 'ж', '語', '🌍', 'ﷺ'),
  length: fc.nat(3_000),
});
type Text = { character: string; length: number };
const written = ({ character, length }: Text): string => character.repeat(length);

/** Tokens of an answer, in how large pieces they come, and what the engine says about it. */
const answer = fc.record({
  tokens: fc.nat(1_500),
  piece: fc.constantFrom('x', 'word ', '語', 'x'.repeat(700)),
  countsAsItGoes: fc.boolean(),
  fails: fc.boolean(),
  reported: fc.option(fc.record({ prompt: count(), completion: count(), cached: count() })),
  /** Then it counts each token, keeps to `maxTokens`, and its prompt has the tokens of its template. */
  runsHere: fc.boolean(),
});
const TEMPLATE_TOKENS = 300;
function count() {
  return fc.oneof(fc.nat(2_000), fc.constantFrom(1e6, 1e9, 1e15));
}

const request = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('chat' as const),
      text,
      maxTokens: fc.option(fc.integer({ min: 1, max: 900 }), { nil: undefined }),
      lowersMaxTokens: fc.boolean(),
      choices: fc.integer({ min: 1, max: 4 }),
      document: fc.option(text),
      answer,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('embedding' as const), text, reported: count() }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('rerank' as const),
      query: text,
      documents: fc.array(text, { minLength: 1, maxLength: 4 }),
      reported: count(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('audio' as const),
      seconds: fc.nat(400),
      bytesPerSecond: fc.constantFrom(26, 750, 32_000),
    }),
  },
);
type Request = typeof request extends fc.Arbitrary<infer T> ? T : never;

const engineOf = (given: Request): Partial<EngineModel> => {
  if (given.kind === 'embedding') {
    return {
      embedding: { embed: async () => ({ vectors: new Float32Array(1), dimensions: 1, tokens: [given.reported] }) },
    };
  }
  if (given.kind === 'rerank') {
    return {
      rerank: { rerank: async () => ({ scores: new Float32Array(given.documents.length), tokens: given.reported }) },
    };
  }
  if (given.kind === 'audio') return { transcription: { transcribe: async () => ({ language: 'en', segments: [] }) } };
  const { tokens, piece, fails, runsHere } = given.answer;
  const countsAsItGoes = runsHere || given.answer.countsAsItGoes;
  const reported = runsHere ? null : given.answer.reported;
  const promptTokens = runsHere ? TEMPLATE_TOKENS : 5;
  return {
    chat: {
      async generate({ maxTokens = tokens }, _context, sink) {
        const most = runsHere ? Math.min(tokens, maxTokens) : tokens;
        const usage = { promptTokens, completionTokens: 0, cachedTokens: 0 };
        const deliver = async (event: ChatEvent) => {
          await sink.deliver(event);
        };
        sink.used({ ...usage });
        await deliver({ type: 'start', promptTokens, cachedTokens: 0 });
        for (let token = 0; token < most; token += 1) {
          usage.completionTokens += 1;
          if (countsAsItGoes) sink.used({ ...usage });
          await deliver({ type: 'text-delta', text: piece });
          if (token % 100 === 0) await nextTurn();
        }
        if (reported !== null) {
          usage.promptTokens = reported.prompt;
          usage.completionTokens = reported.completion;
          usage.cachedTokens = reported.cached;
        }
        sink.used({ ...usage });
        if (fails) throw new Error('the engine failed');
        await deliver({ type: 'end', reason: 'stop', usage });
      },
    },
  };
};

/** Runs a request as the endpoints do, on one replica. */
async function run(given: Request, setting: Parameters<typeof setUp>[0]): Promise<unknown> {
  const modality = given.kind;
  const { inference, call } = setUp({
    ...setting,
    engine: engineOf(given),
    model: { modality, contextLength: 2_048 },
    countsAreTrue: given.kind === 'chat' && given.answer.runsHere ? true : undefined,
  });
  const model = 'acme/one';
  switch (given.kind) {
    case 'chat': {
      const documents = { read: async () => (given.document === null ? [] : [written(given.document)]) };
      const chat = createChat({ inference, images: noImages, documents });
      const messages = [{ role: 'user' as const, content: written(given.text) }];
      return chat.generate(
        call(),
        {
          model,
          choices: given.choices,
          lowersMaxTokens: given.lowersMaxTokens,
          request: { prompt: { messages }, maxTokens: given.maxTokens },
          documents:
            given.document === null
              ? undefined
              : [{ source: { fileId: 'f' }, tag: 'file', message: 0, at: 0, field: 'f' }],
        },
        () => {},
      );
    }
    case 'embedding':
      return createEmbeddings({ inference, images: noImages }).embed(
        call(),
        { model, inputs: [written(given.text)], dimensions: undefined },
        () => undefined,
      );
    case 'rerank':
      return createRerank({ inference }).rerank(call(), {
        model,
        query: written(given.query),
        documents: given.documents.map(written),
        topN: undefined,
      });
    case 'audio':
      return createTranscriptions({
        inference,
        windowed: createWindowedTranscription<number>({
          windowsAtOnce: 2,
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
      }).transcribe(call(), {
        model,
        source: async () => given.seconds,
        bytes: given.seconds * given.bytesPerSecond,
        options: {},
      });
  }
}

async function check(open: () => Promise<readonly Counters[]>, runs: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(
      fc.array(request, { minLength: 2, maxLength: 12 }),
      fc.integer({ min: 1_000, max: 4_000_000 }),
      async (requests, budget) => {
        const counters = await open();
        const rows: LedgerRow[] = [];
        const setting = (index: number) => ({
          rows,
          ownerId: `replica-${index % REPLICAS}-${index}`,
          counters: counters[index % counters.length] as Counters,
          key: { monthlyBudgetNanoUsd: budget, rpm: 1e9, tpm: 1e12 },
        });
        await Promise.allSettled(requests.map((each, index) => run(each, setting(index))));
        expect(spentIn(rows)).toBeLessThanOrEqual(budget);

        // Nothing stays reserved: what is left can be used.
        const left = Math.floor((budget - spentIn(rows)) / 1_000);
        if (left === 0) return;
        const { inference, call } = setUp(setting(requests.length));
        const most = { completionTokens: left };
        await inference.run(call(), {
          ...{ modality: 'chat', model: 'acme/one' },
          bound: () => ({ tokens: 0, most }),
          run: (session) => session.settle(most),
        });
        expect(spentIn(rows)).toBeLessThanOrEqual(budget);
      },
    ),
    { numRuns: runs, seed: 20_261_119, endOnFailure: true },
  );
}

describe('no mix of requests at once, of replicas and of what engines say spends more than a budget', () => {
  it('with counters in memory', () =>
    check(async () => {
      const counters = createMemoryCounters();
      return Array.from({ length: REPLICAS }, () => counters);
    }, 60));

  describe.skipIf(redisMissing !== undefined)('with Redis', () => {
    const opened: RedisCounters[] = [];
    let server: Awaited<ReturnType<typeof redisUrl>> | undefined;
    afterAll(async () => {
      await Promise.all(opened.map((counters) => counters.close()));
      await server?.stop();
    });

    it('over a network, which each step crosses', () =>
      check(async () => {
        server ??= await redisUrl();
        const { url } = server;
        const namespace = newNamespace();
        const counters = await Promise.all(
          Array.from({ length: REPLICAS }, (_, index) =>
            openRedisCounters({
              ...{ url, namespace, leaseMs: 600_000, settleMs: 0, timeoutMs: 20_000 },
              owner: `replica-${index}`,
              now: Date.now,
            }),
          ),
        );
        opened.push(...counters);
        return counters;
      }, 10));
  });
});
