import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import document from '../../docs/openapi.json' with { type: 'json' };
import { type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { freePort } from '../fixtures/free-port.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';
import { slowness } from '../fixtures/slowness.ts';
import { filledBodies, filledForms, type OpenOperation, openOperations } from './request-bodies.ts';
import { type RunningServer, startServer } from './start-server.ts';

/** A long context, and images. */
const CHAT = 'qwen/qwen3.5-9b';
const EMBEDDING = 'baai/bge-m3';
const RERANK = 'baai/bge-reranker-v2-m3';
const AUDIO = 'openai/whisper-large-v3-turbo';

/** `BAOBAB_TURNS_BYTES=28000000` sends bodies up to the limit, in every way. */
const IS_LONG = process.env.BAOBAB_TURNS_BYTES !== undefined;
const BYTES = Number(process.env.BAOBAB_TURNS_BYTES ?? 2_000_000);
/**
 * Longest turn of the event loop for such a body, in processor time of a machine that parses the reference text as fast as the one
 * this was measured on; other machines get more. Work that grows with the square of a list passes it many times over.
 */
const LONGEST_TURN_MS = 120;
/** Garbage collections and compilations fall into some turn: the shortest of several attempts counts. */
const ATTEMPTS = 4;

/** What writes lists of clients into the store. */
const STORING = /\/(?:responses|conversations|batches|files|keys|accounts)(?:\/\{\w+\})?(?:\/items)?$/;

const schemaOf = ({ inputs }: OpenOperation, type: string) => inputs.find(({ place }) => place === type)?.schema;

/** Everything that is sent to one operation. */
function* bodiesFor(operation: OpenOperation, model: string) {
  const json = schemaOf(operation, 'application/json');
  const form = schemaOf(operation, 'multipart/form-data');
  if (json !== undefined) yield* filledBodies(json, { bytes: BYTES, model, everyKind: IS_LONG });
  if (form === undefined) return;
  for (const { name, body } of filledForms(form, { bytes: BYTES, model })) {
    yield { name: `form ${name}`, isList: true, body };
  }
}

describe.each([
  { store: 'SQLite', missing: undefined },
  { store: 'PostgreSQL', missing: postgresMissing },
])('the event loop of a server with $store', ({ store, missing }) => {
  describe.skipIf(missing !== undefined)('', () => {
    let upstreams: FakeUpstream[];
    let postgres: PostgresServer | undefined;
    let server: RunningServer;
    let meter: string;

    beforeAll(async () => {
      const [chat, embedding, rerank] = await Promise.all([
        startFakeUpstream('vllm', { contextLength: 1e9 }),
        startFakeUpstream('openai'),
        startFakeUpstream('tei'),
      ]);
      upstreams = [chat, embedding, rerank];
      const port = await freePort();
      meter = `http://127.0.0.1:${port}`;
      const env: Record<string, string> = {
        TURN_METER_PORT: `${port}`,
        BAOBAB_UPSTREAMS: JSON.stringify([
          { model: CHAT, url: chat.url, kind: 'vllm' },
          { model: EMBEDDING, url: embedding.url, kind: 'openai' },
          { model: RERANK, url: rerank.url, kind: 'tei' },
          { model: AUDIO, url: embedding.url, kind: 'openai' },
        ]),
      };
      if (store === 'PostgreSQL') {
        postgres = await sharedPostgres();
        env.BAOBAB_STORE = await postgres.createDatabase();
      }
      server = await startServer({
        env,
        nodeFlags: ['--import', new URL('./turn-meter.mjs', import.meta.url).href],
      });
    });
    afterAll(async () => {
      await server?.stop();
      await Promise.all(upstreams.map((each) => each.close()));
      await postgres?.stop();
    });

    const longestTurnMs = async () => Number(await (await fetch(meter)).text()) / 1_000;
    async function send(method: string, path: string, body: string | FormData) {
      const headers = {
        authorization: `Bearer ${server.apiKey}`,
        ...(typeof body === 'string' && { 'content-type': 'application/json' }),
      };
      const answer = await fetch(`${server.address}${path}`, { method, headers, body });
      return { status: answer.status, text: await answer.text() };
    }
    async function newConversation(): Promise<string> {
      return JSON.parse((await send('POST', '/v1/conversations', '{}')).text).id;
    }

    async function turnOf({ method, path }: OpenOperation, body: string | FormData) {
      const conversation = await newConversation();
      await longestTurnMs();
      const sent = typeof body === 'string' ? body.replace('@conversation', conversation) : body;
      const { status } = await send(
        method,
        path.replace('{conversation_id}', conversation).replace(/\{\w+\}/g, 'none'),
        sent,
      );
      return { ms: await longestTurnMs(), status };
    }

    /** In a short run, a text of one name in a list of one name is tried in one operation only. */
    const tried = new Set<string>();
    const isNew = ({ name, isList }: { name: string; isList: boolean }) => {
      const isKnown = !isList && tried.has(name);
      tried.add(name);
      return IS_LONG || !isKnown;
    };
    const operations = openOperations(document).filter(
      (operation) =>
        operation.inputs.some(({ place }) => place.includes('/')) &&
        (IS_LONG || store === 'SQLite' || STORING.test(operation.path)),
    );
    const models = (path: string) =>
      /embeddings/.test(path) ? EMBEDDING : /rerank/.test(path) ? RERANK : /audio/.test(path) ? AUDIO : CHAT;
    it.each(operations)('stays free while $name is sent as much as it takes', async (operation) => {
      const allowedMs = LONGEST_TURN_MS * slowness();
      const slow: string[] = [];
      for (const { name, isList, body } of bodiesFor(operation, models(operation.path))) {
        if (!IS_LONG && store === 'PostgreSQL' && !isList) continue;
        if (!isNew({ name, isList })) continue;
        let fastest = Number.POSITIVE_INFINITY;
        for (let attempt = 0; attempt < ATTEMPTS && fastest > allowedMs; attempt += 1) {
          const { ms, status } = await turnOf(operation, body);
          expect(status, name).toBeLessThan(500);
          fastest = Math.min(fastest, ms);
          if (process.env.BAOBAB_TURNS_SHOWN) console.log(store, operation.name, name, status, Math.round(ms));
        }
        if (fastest > allowedMs) slow.push(`${name}: ${Math.round(fastest)} ms of ${Math.round(allowedMs)}`);
      }
      expect(slow).toEqual([]);
    });
  });
});
