import { randomUUID } from 'node:crypto';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import {
  accountsOf,
  differences,
  type LedgerLine,
  readCounters,
  readLedger,
  readMetrics,
  readUsage,
} from '../../scripts/soak/books.ts';
import { createClients, MODELS } from '../../scripts/soak/clients.ts';
import { createReceipts, type Receipts } from '../../scripts/soak/receipts.ts';
import { API_KEY, type RunningServer, startServer } from '../acceptance/start-server.ts';
import { startFakeUpstream } from '../fixtures/fake-upstream.ts';

const KINDS = ['remote', 'rerank', 'chat', 'stream', 'cancelledStream', 'idempotent', 'retried', 'refused'] as const;

/** Requests sent together; in the midst of them the server may be killed. */
const round = fc.record({
  kinds: fc.array(fc.constantFrom(...KINDS), { minLength: 6, maxLength: 24 }),
  killAfterMs: fc.option(fc.nat(120), { freq: 2 }),
});
const WORDS_OF_OTHERS = 100;

const upstream = await startFakeUpstream('openai', { chunkDelayMs: 3, firstByteDelayMs: 2, contextLength: 100_000 });
afterAll(() => upstream.close());

/** A server that can be killed and started again on the same data. */
async function startLife(directory: string): Promise<RunningServer> {
  const config = join(directory, 'property.yaml');
  const models = [MODELS.chat, MODELS.embedding, MODELS.rerank];
  const served = models.map((model) => `  - { model: ${model}, url: ${upstream.url} }`);
  await writeFile(config, ['log: { level: error, format: json }', 'upstreams:', ...served].join('\n'));
  return startServer({ dataDir: directory, args: ['--config', config] });
}

/** One that a client repeats with its key until it is answered. Its number of words identifies it in the ledger. */
async function askOnce(address: string, { key, words }: { key: string; words: number }): Promise<boolean> {
  try {
    const answer = await fetch(`${address}/v1/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify({ model: MODELS.embedding, input: Array.from({ length: words }, () => 'w').join(' ') }),
    });
    await answer.arrayBuffer();
    return answer.status === 200;
  } catch {
    return false;
  }
}

it('bills what clients saw, once, through cancels, retries and kills; ledger, usage and counters agree', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(round, { minLength: 2, maxLength: 3 }), async (rounds) => {
      await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-property-'));
      let server = await startLife(directory.path);
      const receipts = createReceipts();
      const retried: { key: string; words: number }[] = [];
      let billedInEarlierLives: LedgerLine[] = [];
      try {
        for (const { kinds, killAfterMs } of rounds) {
          const { address } = server;
          // A client that leaves a stream gets no answer: its row may not be written yet when the server is killed.
          const left = new Map<string, number>();
          const seen: Receipts =
            killAfterMs === null ? receipts : { ...receipts, part: (id, least) => void left.set(id, least) };
          const clients = createClients({ address, apiKey: API_KEY, receipts: seen, batchDiscountPercent: 0 });
          const unanswered: (typeof retried)[number][] = [];
          const run = async (kind: (typeof KINDS)[number]) => {
            if (kind !== 'retried') return clients[kind]();
            const request = { key: randomUUID(), words: WORDS_OF_OTHERS + retried.length };
            retried.push(request);
            const [first, second] = await Promise.all([askOnce(address, request), askOnce(address, request)]);
            if (!first || !second) unanswered.push(request);
          };
          const all = Promise.allSettled(kinds.map(run));
          if (killAfterMs !== null) {
            await sleep(killAfterMs);
            await server.kill();
          }
          for (const { status } of await all) {
            if (status === 'fulfilled') continue;
            expect(killAfterMs, 'a request broke off although the server was not killed').not.toBeNull();
            // An idempotent one is three requests, of which one may have been billed.
            receipts.lost();
          }
          await clients.close().catch(() => {});
          if (killAfterMs !== null) {
            server = await startLife(directory.path);
            billedInEarlierLives = readLedger(server.dataDir);
            for (const { requestId } of billedInEarlierLives) {
              const least = left.get(requestId);
              if (least !== undefined) receipts.part(requestId, least);
            }
            for (const request of unanswered) expect(await askOnce(server.address, request)).toBe(true);
          } else expect(unanswered).toEqual([]);

          await expect
            .poll(async () => {
              const ledger = readLedger(server.dataDir);
              const isRetried = ({ model, promptTokens }: LedgerLine) =>
                model === MODELS.embedding && promptTokens > WORDS_OF_OTHERS;
              const words = ledger.filter(isRetried).map(({ promptTokens }) => promptTokens - 2);
              const before = new Set(billedInEarlierLives.map(({ billingId }) => billingId));
              const inThisLife = ledger.filter(({ billingId }) => !before.has(billingId));
              return [
                ...receipts.compare(ledger.filter((line) => !isRetried(line))),
                ...(words.sort().join() === retried.map((each) => each.words).join() ? [] : [`retried: ${words}`]),
                ...differences(
                  'ledger',
                  accountsOf(ledger),
                  'usage',
                  (await readUsage(server.address, API_KEY)).accounts,
                ),
                ...differences(
                  'ledger of this life',
                  accountsOf(inThisLife),
                  'Prometheus',
                  readCounters(await readMetrics(server.address)),
                ),
              ];
            })
            .toEqual([]);
        }
      } finally {
        await server.kill();
      }
    }),
    { numRuns: 2, endOnFailure: true },
  );
});
