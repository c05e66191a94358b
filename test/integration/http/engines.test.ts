import { afterAll, describe, expect, it } from 'vitest';
import { CHAT, EMBEDDING, KEY, startHttpBed } from './bed.ts';

const LOCAL = 'baobab/rerank-small';

const bed = await startHttpBed();
afterAll(() => bed[Symbol.asyncDispose]());

interface Engine {
  model: string;
  status: string;
  processes: number;
  weights: { status: string; reason: string | null } | null;
  upstreams: Record<string, unknown>[];
}

async function engines(): Promise<Engine[]> {
  return ((await (await bed.fetch('/v1/admin/engines')).json()) as { data: Engine[] }).data;
}
const engine = async (slug: string) => (await engines()).find(({ model }) => model === slug);
const send = (action: string, model: string, key?: string) => bed.post(`/v1/admin/models/${action}`, { model }, key);

describe('engines', () => {
  it('are listed with their weights and upstreams', async () => {
    await (await bed.post('/v1/embeddings', { model: EMBEDDING, input: 'a' })).text();
    expect(await engine(EMBEDDING)).toMatchObject({
      object: 'engine',
      status: 'ready',
      processes: 0,
      upstreams: [{ address: new URL(bed.embedding.url).host, kind: 'tei', region: 'local', healthy: true }],
    });
    expect(await engine(LOCAL)).toMatchObject({ driver: 'onnx', processes: 0, upstreams: [], device: null });
  });

  it('can be pulled; a source that cannot be reached says why', async () => {
    const answer = await send('pull', CHAT);
    expect(answer.status).toBe(200);
    await expect.poll(async () => (await engine(CHAT))?.weights?.status).toBe('unreachable');
    expect((await engine(CHAT))?.weights?.reason).toBeTypeOf('string');
  });

  it('that are not loaded are unloaded already', async () => {
    expect(await (await send('unload', LOCAL)).json()).toMatchObject({ model: LOCAL, processes: 0 });
  });

  it('refuse models that they do not know or that only upstreams serve', async () => {
    for (const action of ['pull', 'load', 'unload']) {
      expect((await send(action, 'no/such-model')).status).toBe(404);
      expect((await send(action, 'openai/gpt-oss-120b')).status).toBe(400);
    }
  });

  it('are for operators only', async () => {
    const { secret } = (await (await bed.post('/v1/admin/keys', { account: 'default', name: 'member' })).json()) as {
      secret: string;
    };
    for (const path of ['engines', 'system']) {
      expect((await bed.fetch(`/v1/admin/${path}`, { key: secret })).status).toBe(403);
    }
    expect((await send('pull', CHAT, secret)).status).toBe(403);
  });
});

describe('GET /v1/admin/system', () => {
  it('shows the server and its settings without secrets', async () => {
    const answer = await bed.fetch('/v1/admin/system');
    const text = await answer.text();
    expect(JSON.parse(text)).toMatchObject({
      object: 'system',
      region: 'local',
      ready: true,
      reasons: [],
      store: { kind: 'sqlite' },
      configuration: {
        first_key: '********',
        log: { level: 'silent' },
        upstreams: [{ model: CHAT }, { model: EMBEDDING }],
      },
    });
    expect(text).not.toContain(KEY);
  });
});
