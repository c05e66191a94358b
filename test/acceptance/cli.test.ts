import { isDeepStrictEqual } from 'node:util';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { baobab, baobabJson } from './command.ts';
import { type RunningServer, startServer } from './start-server.ts';

interface KeyAnswer {
  id: string;
  secret: string;
  scopes: string[];
  expires_at: string | null;
}

const SLUG = 'baai/bge-small-en-v1.5';
/** What the store changes must be seen by a running server within this time. */
const SEEN_WITHIN_MS = 1_000;

let server: RunningServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server[Symbol.asyncDispose]());

const status = async (secret: string) => {
  const answer = await fetch(`${server.address}/v1/models`, { headers: { authorization: `Bearer ${secret}` } });
  await answer.arrayBuffer();
  return answer.status;
};

/** Answers may be slow, but none that was asked for after `SEEN_WITHIN_MS` may be the old one. */
async function expectSeen<T>(ask: () => Promise<T>, expected: T): Promise<void> {
  const began = performance.now();
  let lastOld = 0;
  const answer = async () => {
    const asked = performance.now() - began;
    const found = await ask();
    if (!isDeepStrictEqual(found, expected)) lastOld = asked;
    return found;
  };
  await expect.poll(answer, { timeout: 60_000, interval: 20 }).toEqual(expected);
  expect(lastOld).toBeLessThanOrEqual(SEEN_WITHIN_MS);
}

describe('keys beside a running server', () => {
  it('work at once when created, and get 403 within a second when revoked', async () => {
    const key = await baobabJson<KeyAnswer>(server.dataDir, ['keys', 'create', 'ci']);
    expect(key.secret).toMatch(/^bao_sk_[0-9A-Za-z]{40}$/);
    expect(key.scopes).not.toContain('admin');
    expect(await status(key.secret)).toBe(200);
    await baobabJson(server.dataDir, ['keys', 'revoke', key.id]);
    await expectSeen(() => status(key.secret), 403);
  });

  it('keep the old secret for the grace period after a rotation', async () => {
    const first = await baobabJson<KeyAnswer>(server.dataDir, [
      'keys',
      'create',
      'rotating',
      '--scopes',
      'models,chat',
    ]);
    const second = await baobabJson<KeyAnswer>(server.dataDir, ['keys', 'rotate', first.id, '--grace', '1h']);
    expect(second.scopes).toEqual(['chat', 'models']);
    expect(await status(first.secret)).toBe(200);
    expect(await status(second.secret)).toBe(200);
    const third = await baobabJson<KeyAnswer>(server.dataDir, ['keys', 'rotate', second.id, '--grace', '0s']);
    await expectSeen(() => status(second.secret), 403);
    expect(await status(third.secret)).toBe(200);
    const chain = await baobab(server.dataDir, ['keys', 'list', '--search', 'rotating']);
    expect(chain.stdout.match(/ \$0 \(shared\) /g)).toHaveLength(3);
    expect(chain.stdout).toContain('\nshared: a rotated key and those that replaced it');
  });

  it('are limited to their models, and listed without secrets', async () => {
    await baobabJson(server.dataDir, ['accounts', 'create', 'team']);
    const args = ['keys', 'create', 'narrow', '--account', 'team', '--models', 'qwen/*', '--scopes', 'inference'];
    const { id, secret } = await baobabJson<KeyAnswer>(server.dataDir, args);
    const client = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: secret, maxRetries: 0 });
    await expect(client.embeddings.create({ model: SLUG, input: 'a' })).rejects.toMatchObject({
      status: 403,
      code: 'model_not_allowed',
    });
    const { stdout } = await baobab(server.dataDir, ['keys', 'list', '--account', 'team']);
    expect(stdout).toMatch(/^ID +KEY +NAME +ACCOUNT +STATE +LAST USED +LIMITS +SPENT THIS MONTH +MODELS +SCOPES\n/);
    expect(stdout).toMatch(
      new RegExp(`^${id} .* narrow +team +active +\\S+ +default +\\$0 +qwen/\\* +inference$`, 'm'),
    );
    expect(stdout).not.toContain(secret);
    const keys = await baobabJson<KeyAnswer[]>(server.dataDir, ['keys', 'list', '--account', 'team']);
    expect(keys).toMatchObject([{ id, name: 'narrow', allowed_models: ['qwen/*'] }]);
    expect(JSON.stringify(keys)).not.toContain(secret);
  });

  it('follow changes of the key and of its account within a second', async () => {
    await baobabJson(server.dataDir, ['accounts', 'create', 'changing', '--rpm', '500']);
    const { id, secret } = await baobabJson<KeyAnswer>(server.dataDir, [
      ...['keys', 'create', 'old', '--account', 'changing', '--tpm', '9000', '--models', 'qwen/*'],
    ]);
    // Loaded first: that takes longer than the change may take.
    const client = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: server.apiKey });
    await client.embeddings.create({ model: SLUG, input: 'a' });
    const embed = async () => {
      const answer = await fetch(`${server.address}/v1/embeddings`, {
        method: 'POST',
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: SLUG, input: 'a' }),
      });
      await answer.arrayBuffer();
      const limit = (of: string) => Number(answer.headers.get(`x-ratelimit-limit-${of}`));
      return { status: answer.status, rpm: limit('requests'), tpm: limit('tokens') };
    };
    expect(await embed()).toMatchObject({ status: 403 });
    const changed = await baobab(server.dataDir, ['keys', 'update', id, '--models', 'none', '--rpm', '400']);
    expect(changed.stdout).toMatch(
      / old +changing +active .* 400 rpm, 9000 tpm .*- +inference,files,batches,models,usage$/m,
    );
    await expectSeen(embed, { status: 200, rpm: 400, tpm: 9_000 });
    const renamed = ['keys', 'update', id, '--rpm', 'none', '--name', 'new'];
    expect(await baobabJson<KeyAnswer>(server.dataDir, renamed)).toMatchObject({ id, rpm: null, name: 'new' });
    await expectSeen(embed, { status: 200, rpm: 500, tpm: 9_000 });
    const again = await baobab(server.dataDir, ['keys', 'update', id, '--name', 'newest']);
    expect(again.stdout).toContain('\nchanged: name newest\n');
    const account = await baobab(server.dataDir, ['accounts', 'update', 'changing', '--rpm', '700', '--tpm', '8000']);
    expect(account.stdout).toMatch(
      /^ID +NAME +STATE +LIMITS +RETENTION +CREATED\n\S+ +changing +active +700 rpm, 8000 tpm +- /,
    );
    // The smaller of the two limits.
    await expectSeen(embed, { status: 200, rpm: 700, tpm: 8_000 });
    const named = ['accounts', 'update', 'changing', '--aliases', 'gpt-4o-mini=baobab/chat-mini'];
    const aliases = [{ name: 'gpt-4o-mini', model: 'baobab/chat-mini' }];
    expect(await baobabJson(server.dataDir, named)).toMatchObject({ aliases });
    const shown = await baobab(server.dataDir, named);
    expect(shown.stdout).toContain('\nchanged: aliases gpt-4o-mini=baobab/chat-mini\n');
    const unnamed = await baobabJson(server.dataDir, ['accounts', 'update', 'changing', '--aliases', 'none']);
    expect(unnamed).toMatchObject({ aliases: [] });
    await baobabJson(server.dataDir, ['accounts', 'update', 'changing', '--monthly-budget', '0']);
    await expectSeen(async () => (await embed()).status, 429);
    await baobabJson(server.dataDir, ['accounts', 'update', 'changing', '--monthly-budget', 'none']);
    await expectSeen(async () => (await embed()).status, 200);
    expect((await baobab(server.dataDir, ['accounts', 'suspend', 'changing'])).stdout).toBe(
      'suspended account changing\n',
    );
    await expectSeen(async () => (await embed()).status, 403);
    await baobabJson(server.dataDir, ['accounts', 'resume', 'changing']);
    await expectSeen(async () => (await embed()).status, 200);
    expect((await baobab(server.dataDir, ['accounts', 'delete', 'changing'])).stderr).toMatch(/add --yes to do it/);
    expect((await embed()).status).toBe(200);
    const deleted = await baobabJson(server.dataDir, ['accounts', 'delete', 'changing', '--yes']);
    expect(deleted).toMatchObject({ deleted_at: expect.any(String), erased_at: null });
    await expectSeen(async () => (await embed()).status, 403);
  });

  it.each([
    [['keys', 'update', 'key_none'], /nothing to change was given; try --rpm 60/],
    [['keys', 'update', 'key_none', '--models', ','], /--models must name at least one/],
    [['keys', 'update', 'key_none', '--scopes', 'none'], /there is no scope 'none'; --scopes takes chat, /],
    [['accounts', 'update', 'team', '--rpm', 'many'], /--rpm must be a whole number, 1 or more, not 'many'/],
    [['accounts', 'update', 'team', '--rpm', '-5'], /--rpm must be a whole number, 1 or more, not '-5'/],
    [['keys', 'create', 'x', '--scopes', 'embedings'], /there is no scope 'embedings'; did you mean 'embeddings'\?/],
    [
      ['keys', 'create', 'x', '--models', 'baai/bge-smal-en-v1.5'],
      /'--models': there is no model '.*'\. Did you mean 'baai\/bge-small-en-v1\.5'\?/,
    ],
    [['keys', 'create', 'x', '--expires', '2026-02-30'], /ISO 8601/],
    [['keys', 'rotate', 'key_none', '--grace', '25h'], /at most 24 hours/],
    [
      ['keys', 'create', '--nonsense'],
      /there is no option '--nonsense'; there are --rpm, .*\nusage: baobab keys create <name> .*; 'baobab keys --help' lists the options\n$/,
    ],
    [['keys', 'create', 'x', '--rpm', '--json'], /write --rpm=--json to pass it/],
    [['keys', 'create'], /'keys create' needs a name\nusage: baobab keys create/],
    [['models', 'deprecate', SLUG], /'models deprecate' needs --on YYYY-MM-DD/],
    [['constructor'], /unknown command 'constructor'/],
  ])('%j fails with a message and no stack trace', async (args, message) => {
    const { exitCode, stderr } = await baobab(server.dataDir, args);
    expect(exitCode).toBeGreaterThan(0);
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(/^ +at /m);
  });

  it.each([
    [['keys', 'create', 'x', '--account', 'nobody'], "no account 'nobody'; 'baobab accounts list' shows all accounts"],
    [['keys', 'revoke', 'key_none'], "no key 'key_none'; 'baobab keys list' shows them"],
    [['keys', 'update', 'key_none', '--rpm', '1'], "no key 'key_none'; 'baobab keys list' shows them"],
    [['accounts', 'update', 'nobody', '--rpm', '1'], "no account 'nobody'; 'baobab accounts list' shows all accounts"],
    [
      ['models', 'pull', 'acme/none'],
      "no model 'acme/none'; 'baobab models list' shows them\nOnly the built-in models and those added to {data} were searched; if the server has a catalog_dir, name its configuration with --config.",
    ],
    [['usage', '--account', 'nobody'], "no account 'nobody'; 'baobab accounts list' shows all accounts"],
  ])('%j fails with exit code 1, not as wrong usage', async (args, message) => {
    const { exitCode, stderr } = await baobab(server.dataDir, args);
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: `baobab: there is ${message.replace('{data}', server.dataDir)}\n`,
    });
  });
});

describe('models beside a running server', () => {
  const deprecatedAt = async () => {
    const answer = await fetch(`${server.address}/v1/models/${SLUG}`, {
      headers: { authorization: `Bearer ${server.apiKey}` },
    });
    return ((await answer.json()) as { deprecated_at: string | null }).deprecated_at;
  };

  it('are deprecated within a second, with at least 90 days of notice', async () => {
    const soon = new Date(Date.now() + 30 * 86_400_000).toISOString().slice(0, 10);
    const refused = await baobab(server.dataDir, ['models', 'deprecate', SLUG, '--on', soon]);
    expect(refused).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/less than 90 days of notice; the earliest date is/),
    });
    expect(await deprecatedAt()).toBeNull();
    const later = new Date(Date.now() + 120 * 86_400_000).toISOString().slice(0, 10);
    expect((await baobab(server.dataDir, ['models', 'deprecate', SLUG, '--on', later])).exitCode).toBe(0);
    await expectSeen(deprecatedAt, `${later}T00:00:00.000Z`);
    const early = await baobab(server.dataDir, ['models', 'retire', SLUG]);
    expect(early).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('has not come yet') });
  });

  it('are verified in all versions that are here, when none is named', async () => {
    const { exitCode, stdout } = await baobab(server.dataDir, ['models', 'verify']);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^baobab\/embed-multilingual@2026-11-19: files verified: 3$/m);
    expect(stdout).toMatch(/^baobab\/embed-multilingual@2026-11-20: files verified: 3$/m);
  });

  it('send the deprecation header with their answers', async () => {
    const client = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: server.apiKey });
    const { response } = await client.embeddings.create({ model: SLUG, input: 'a' }).withResponse();
    expect(response.headers.get('service-deprecated')).toBe(await deprecatedAt());
  });
});

describe('configuration', () => {
  it('is printed with secrets masked', async () => {
    const { stdout } = await baobab(server.dataDir, ['config', '--port', '99'], {
      BAOBAB_FIRST_KEY: 'secret-0123456789',
    });
    expect(stdout).toContain('port: 99');
    expect(stdout).toContain('first_key: "********"');
    expect(stdout).not.toContain('secret-0123456789');
  });

  it('with a mistake stops with exit code 1 and says where', async () => {
    const { exitCode, stderr } = await baobab(server.dataDir, ['serve', '--port', 'http'], { BAOBAB_RGION: 'x' });
    expect(exitCode).toBe(1);
    expect(stderr).toContain('--port: port: must be a whole number from 0 to 65535');
    expect(stderr).toContain('BAOBAB_RGION: unknown variable');
  });
});
