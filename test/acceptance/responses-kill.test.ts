import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeUpstream, silence, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { answeringInHalves, liveEvents, responseId, rest, until } from '../fixtures/live-events.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';
import { type RunningServer, startServer } from './start-server.ts';

const MODEL = 'qwen/qwen2.5-0.5b-instruct';
const TEXT = 'Hello from the other side.';
/** For a long run: `BAOBAB_KILL_ROUNDS=100 BAOBAB_KILL_SEED=7`. */
const ROUNDS = Number(process.env.BAOBAB_KILL_ROUNDS ?? 3);
const SEED = Number(process.env.BAOBAB_KILL_SEED ?? 1);
const TIMEOUT_MS = 120_000 + ROUNDS * 60_000;

/** Numbers from 0 to 1 that are the same for the same seed (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

describe.each([
  { store: 'SQLite', missing: undefined },
  { store: 'PostgreSQL', missing: postgresMissing },
])('kill -9 with $store', ({ store, missing }) => {
  describe.skipIf(missing !== undefined)('', () => {
    let upstream: FakeUpstream;
    let postgres: PostgresServer | undefined;
    let dataDir: string;
    let server: RunningServer;
    let openai: OpenAI;
    let env: Record<string, string>;

    async function start(): Promise<void> {
      server = await startServer({ dataDir, env });
      openai = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: server.apiKey, maxRetries: 0 });
    }
    beforeAll(async () => {
      upstream = await startFakeUpstream('vllm');
      dataDir = await mkdtemp(join(tmpdir(), 'baobab-responses-kill-'));
      env = { BAOBAB_UPSTREAMS: JSON.stringify([{ model: MODEL, url: upstream.url, kind: 'vllm' }]) };
      if (store === 'PostgreSQL') {
        postgres = await sharedPostgres();
        env.BAOBAB_STORE = await postgres.createDatabase();
      }
      await start();
    });
    afterAll(async () => {
      await server.stop();
      await upstream.close();
      await postgres?.stop();
      await rm(dataDir, { recursive: true, force: true });
    });

    async function ended(id: string) {
      // `poll` would try again until the end of the test, but a server that was killed stays away.
      const status = () => openai.responses.retrieve(id).then(({ status }) => status, String);
      await expect.poll(status, { timeout: TIMEOUT_MS, interval: 100 }).not.toMatch(/^(queued|in_progress)$/);
      return openai.responses.retrieve(id);
    }
    const fetchStream = (path: string) =>
      fetch(`${server.address}${path}`, { headers: { authorization: `Bearer ${server.apiKey}` } });

    it('finishes background responses', { timeout: TIMEOUT_MS }, async () => {
      upstream.script.push(silence);
      const before = upstream.requests.length;
      const { id } = await openai.responses.create({ model: MODEL, input: 'Hi', background: true });
      await upstream.until(() => upstream.requests.length > before);
      await server.kill();
      await start();
      expect((await ended(id)).output_text).toBe(TEXT);
    });

    /** Only these stores are shared by several servers. */
    const onShared = (name: string, work: () => Promise<void>) => {
      if (store === 'PostgreSQL') it(name, { timeout: TIMEOUT_MS }, work);
    };
    const postStream = () =>
      fetch(`${server.address}/v1/responses`, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: MODEL, input: 'Hi', background: true, stream: true }),
      });

    onShared(
      'streams live on a server that does not work on it',

      async () => {
        const { handler, go } = answeringInHalves({ text: 'one two three four' });
        upstream.script.push(handler);
        const events = liveEvents(await postStream());
        const seen = await until(events, 'response.output_text.delta');
        await using other = await startServer({ env });
        const headers = { authorization: `Bearer ${other.apiKey}` };
        const at = `${other.address}/v1/responses/${responseId(seen)}?stream=true&starting_after=0`;
        const followed = liveEvents(await fetch(at, { headers }));
        expect(await until(followed, 'response.output_text.delta')).toEqual(seen.slice(1));
        go();
        const end = await rest(events);
        expect(await rest(followed)).toEqual(end);
        expect(end.at(-1)).toMatchObject({ type: 'response.completed' });
      },
    );

    it('resumes the stream of a background response, up to its end', { timeout: TIMEOUT_MS }, async () => {
      const { handler, go } = answeringInHalves({ text: 'one two three four' });
      upstream.script.push(handler);
      const events = liveEvents(await postStream());
      const seen = await until(events, 'response.output_text.delta');
      const id = responseId(seen);
      await server.kill();
      go();
      await events.return(undefined).catch(() => {});
      await start();
      const resumed = await rest(liveEvents(await fetchStream(`/v1/responses/${id}?stream=true&starting_after=1`)));
      expect(resumed.slice(0, seen.length - 2)).toEqual(seen.slice(2));
      expect(resumed.map(({ sequence_number: number }) => number)).toEqual(resumed.map((_event, index) => index + 2));
      expect(resumed.at(-1)).toMatchObject({ type: 'response.completed', response: { id, status: 'completed' } });
      expect((await openai.responses.retrieve(id)).output_text).toBe(TEXT);
    });

    it('has every response whole or not at all, at random moments', { timeout: TIMEOUT_MS }, async () => {
      const random = randomNumbers(SEED);
      /** Ids of responses that began, and whether the client saw their end. */
      const begun = new Map<string, boolean>();
      const queued = new Set<string>();
      for (let round = 0; round < ROUNDS; round += 1) {
        const eventsBeforeKill = 1 + Math.floor(random() * 120);
        const delayMs = random() * 15;
        let events = 0;
        let killed: Promise<void> | undefined;
        const countEvent = () => {
          events += 1;
          if (events >= eventsBeforeKill) killed ??= pause(delayMs).then(() => server.kill());
        };
        const stream = async () => {
          let previous: string | undefined;
          while (killed === undefined) {
            const body = {
              model: MODEL,
              input: 'Hi',
              ...(previous !== undefined && { previous_response_id: previous }),
            };
            for await (const event of await openai.responses.create({ ...body, stream: true })) {
              if (event.type === 'response.created') begun.set(event.response.id, false);
              if (event.type === 'response.completed') {
                previous = event.response.id;
                begun.set(previous, true);
              }
              countEvent();
            }
          }
        };
        const enqueue = async () => {
          while (killed === undefined) {
            const { id } = await openai.responses.create({ model: MODEL, input: 'Hi', background: true });
            queued.add(id);
            countEvent();
            await ended(id);
            countEvent();
          }
        };
        await Promise.allSettled([stream(), stream(), stream(), enqueue(), enqueue()]);
        await killed;
        await start();
        for (const [id, isWhole] of begun) {
          const found = await openai.responses.retrieve(id).catch((error: { status?: number }) => error.status);
          if (isWhole || found !== 404) expect(found).toMatchObject({ id, status: 'completed', output_text: TEXT });
        }
        for (const id of queued) expect(await ended(id)).toMatchObject({ id, status: 'completed', output_text: TEXT });
      }
      expect(begun.size).toBeGreaterThanOrEqual(ROUNDS);
    });
  });
});
