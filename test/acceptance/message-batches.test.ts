import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeUpstream, silence, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { answering } from '../fixtures/scripted-model.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';
import { type RunningServer, startServer } from './start-server.ts';

const MODEL = 'qwen/qwen2.5-0.5b-instruct';
const TIMEOUT_MS = 180_000;

describe.each([
  { store: 'SQLite', missing: undefined },
  { store: 'PostgreSQL', missing: postgresMissing },
])('message batches with $store', ({ store, missing }) => {
  describe.skipIf(missing !== undefined)('', () => {
    let upstream: FakeUpstream;
    let postgres: PostgresServer | undefined;
    let dataDir: string;
    let server: RunningServer;
    let batches: Anthropic.Messages.Batches;
    let env: Record<string, string>;

    async function start(): Promise<void> {
      server = await startServer({ dataDir, env });
      batches = new Anthropic({ baseURL: server.address, apiKey: server.apiKey }).messages.batches;
    }
    beforeAll(async () => {
      upstream = await startFakeUpstream('vllm');
      dataDir = await mkdtemp(join(tmpdir(), 'baobab-message-batches-'));
      env = {
        BAOBAB_UPSTREAMS: JSON.stringify([{ model: MODEL, url: upstream.url, kind: 'vllm' }]),
        BAOBAB_BATCHES_CONCURRENCY: '2',
      };
      if (store === 'PostgreSQL') {
        postgres = await sharedPostgres();
        env.BAOBAB_STORE = await postgres.createDatabase();
      }
      await start();
    }, TIMEOUT_MS);
    afterAll(async () => {
      await server.stop();
      await upstream.close();
      await postgres?.stop();
      await rm(dataDir, { recursive: true, force: true });
    });

    const order = (count: number) =>
      batches.create({
        requests: Array.from({ length: count }, (_, index) => ({
          custom_id: `request-${index}`,
          params: { model: MODEL, max_tokens: 20, messages: [{ role: 'user', content: `Hi ${index}` }] },
        })),
      });
    async function ended(id: string) {
      const status = async () => (await batches.retrieve(id)).processing_status;
      await expect.poll(status, { timeout: TIMEOUT_MS, interval: 200 }).toBe('ended');
      return batches.retrieve(id);
    }

    it('runs through every method of the official client', { timeout: TIMEOUT_MS }, async () => {
      const { id } = await order(20);
      const batch = await ended(id);
      expect(batch.request_counts).toEqual({ processing: 0, succeeded: 20, errored: 0, canceled: 0, expired: 0 });
      const answered = new Set<string>();
      for await (const { custom_id, result } of await batches.results(id)) {
        expect(result).toMatchObject({
          type: 'succeeded',
          message: { content: [{ type: 'text', text: 'Hello from the other side.' }] },
        });
        answered.add(custom_id);
      }
      expect(answered.size).toBe(20);
      const listed: string[] = [];
      for await (const each of batches.list({ limit: 1 })) listed.push(each.id);
      expect(listed).toEqual([id]);
      await expect(batches.cancel(id)).rejects.toBeInstanceOf(Anthropic.BadRequestError);
      expect(await batches.delete(id)).toEqual({ id, type: 'message_batch_deleted' });
      await expect(batches.retrieve(id)).rejects.toBeInstanceOf(Anthropic.NotFoundError);
    });

    it('ends after a kill -9, with one result for each request', { timeout: TIMEOUT_MS }, async () => {
      const before = upstream.requests.length;
      upstream.script.push(...Array.from({ length: 6 }, () => answering({ text: 'Before.' })));
      upstream.script.push(silence, silence);
      const { id } = await order(20);
      await upstream.until(() => upstream.requests.length >= before + 8);
      await server.kill();
      await start();
      const batch = await ended(id);
      expect(batch.request_counts).toMatchObject({ succeeded: 20, errored: 0 });
      const ids: string[] = [];
      for await (const { custom_id } of await batches.results(id)) ids.push(custom_id);
      expect(ids).toHaveLength(20);
      expect(new Set(ids).size).toBe(20);
    });
  });
});
