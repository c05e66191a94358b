import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SERVE_FLAGS } from '../../bin/serve-flags.mjs';
import { baobab, baobabJson } from './command.ts';
import { type RunningServer, startServer } from './start-server.ts';

const run = promisify(execFile);

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'baobab-life-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const models = (server: RunningServer, secret: string) =>
  fetch(`${server.address}/v1/models`, { headers: { authorization: `Bearer ${secret}` } });
const secretsIn = (text: string) => [...new Set(text.match(/bao_sk_[0-9A-Za-z]+/g))];
/** An empty variable counts as none. */
const WITHOUT_KEY = { BAOBAB_FIRST_KEY: '' };

describe('the first start', () => {
  it('prints one key that works and the curl line to try it; a later one prints none', async () => {
    const dataDir = await mkdtemp(join(directory, 'first-'));
    const first = await startServer({ dataDir, env: WITHOUT_KEY });
    const [secret = '', ...more] = first.output().match(/bao_sk_[0-9A-Za-z]+/g) ?? [];
    expect(more).toEqual([]);
    const command = () => /^ *curl [\s\S]*?(?=\n\n)/m.exec(first.output())?.[0] ?? '';
    await expect.poll(command).not.toBe('');
    const line = command();
    const { stdout } = await run('sh', ['-c', line], { env: { ...process.env, BAOBAB_API_KEY: secret } });
    expect(JSON.parse(stdout).data[0].embedding).toHaveLength(384);
    expect((await models(first, secret)).status).toBe(200);
    await first.stop();
    expect(first.process.exitCode).toBe(0);

    const second = await startServer({ dataDir, env: WITHOUT_KEY });
    expect(secretsIn(second.output())).toEqual([]);
    expect((await models(second, secret)).status).toBe(200);
    await second.stop();
  });

  it('prints its texts before any line of the log', async () => {
    const dataDir = await mkdtemp(join(directory, 'order-'));
    // Both streams in one file, as in a terminal.
    await using file = await open(join(dataDir, 'output'), 'w+');
    const args = [
      ...SERVE_FLAGS,
      join(import.meta.dirname, '../../packages/server/src/main.ts'),
      'serve',
      '--port',
      '0',
    ];
    const env = { ...process.env, ...WITHOUT_KEY, BAOBAB_DATA_DIR: dataDir };
    for (const first of ['Your first API key.', 'Baobab serves on http://']) {
      await file.truncate();
      const server = spawn(process.execPath, args, { cwd: dataDir, env, stdio: ['ignore', file.fd, file.fd] });
      const exited = once(server, 'exit');
      const output = () => readFile(join(dataDir, 'output'), 'utf8');
      await expect.poll(output).toContain('Server listening at');
      server.kill('SIGTERM');
      await exited;
      const [texts = ''] = (await output()).replaceAll('\0', '').split('Server listening at');
      expect(texts.trimStart().startsWith(first)).toBe(true);
      expect(texts).toContain('Baobab serves on http://');
      expect(texts).toMatch(/Console: +http:\S+\/console .*\nAPI reference: http:\S+\/docs\n/);
    }
  });

  it('shuts down cleanly when npm and the terminal both send Ctrl-C', async () => {
    const server = await startServer({ dataDir: await mkdtemp(join(directory, 'twice-')) });
    const exited = once(server.process, 'exit');
    server.process.kill('SIGINT');
    server.process.kill('SIGINT');
    expect(await exited).toEqual([0, null]);
  });

  it('takes BAOBAB_FIRST_KEY for the first key and does not print it', async () => {
    await using server = await startServer({ env: { BAOBAB_FIRST_KEY: 'my-own-first-key-123' } });
    expect((await models(server, 'my-own-first-key-123')).status).toBe(200);
    expect(server.output()).not.toContain('my-own-first-key-123');
    expect(secretsIn(server.output())).toEqual([]);
  });

  it("says that BAOBAB_API_KEY is the clients' key when it makes a first key", async () => {
    const env = { ...WITHOUT_KEY, BAOBAB_API_KEY: 'a-key-of-another-server' };
    await using server = await startServer({ env });
    expect(server.output()).toContain('To choose the first key, set BAOBAB_FIRST_KEY before the first start.');
    expect((await models(server, 'a-key-of-another-server')).status).toBe(401);
  });

  it('makes a data directory that only its owner can read', async () => {
    const dataDir = join(directory, 'private');
    await baobabJson(directory, ['accounts', 'create', 'team', '--data-dir', dataDir]);
    expect((await stat(dataDir)).mode & 0o077).toBe(0);
  });

  it('shows no key while the port is in use; the next start shows it', async () => {
    const dataDir = await mkdtemp(join(directory, 'taken-'));
    const blocker = createServer().listen(0, '127.0.0.1');
    await once(blocker, 'listening');
    const { port } = blocker.address() as { port: number };
    const failed = await baobab(dataDir, ['serve', '--port', String(port)]);
    blocker.close();
    expect(failed).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining(`port ${port} of 127.0.0.1 is in use`),
    });
    expect(failed.stderr).not.toMatch(/^ +at /m);
    expect(secretsIn(failed.stdout)).toEqual([]);
    await using server = await startServer({ dataDir, env: WITHOUT_KEY });
    const [secret = ''] = secretsIn(server.output());
    expect((await models(server, secret)).status).toBe(200);
  });
});

describe('a start with wrong settings', () => {
  const start = async (...args: string[]) => {
    const { exitCode, stdout, stderr } = await baobab(directory, ['serve', '--port', '0', ...args]);
    // It stopped before it created a key.
    expect(secretsIn(stdout)).toEqual([]);
    expect(stderr).not.toMatch(/^ +at /m);
    return { exitCode, stderr };
  };

  it('stops at an unknown flag or word', async () => {
    expect(await start('--prot', '1')).toEqual({
      exitCode: 2,
      stderr: expect.stringContaining("unknown setting '--prot'"),
    });
    expect(await start('now')).toEqual({ exitCode: 2, stderr: expect.stringContaining("'now' is not a setting") });
  });

  it('stops at a model that is not in the catalog and names the line', async () => {
    const file = join(directory, 'models.yaml');
    await writeFile(
      file,
      'models:\n  warm:\n    - baobab/nope\nupstreams:\n  - model: foo/bar\n    url: http://127.0.0.1:9/v1\n' +
        'aliases:\n  - { name: gpt-4o, model: foo/chat }\n  - { name: openai/whisper-tiny, model: openai/whisper-base }\n',
    );
    const { exitCode, stderr } = await start('--config', file);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("models.yaml:3: models.warm.0: there is no model 'baobab/nope' in the catalog");
    expect(stderr).toContain("models.yaml:5: upstreams.0.model: there is no model 'foo/bar' in the catalog");
    expect(stderr).toContain("models.yaml:8: aliases.0.model: there is no model 'foo/chat' in the catalog");
    expect(stderr).toContain("models.yaml:9: aliases.1.name: 'openai/whisper-tiny' is a model of the catalog");
  });
});

describe('a data directory', () => {
  it('has one server; a second one is refused with a message', async () => {
    await using server = await startServer();
    const second = await baobab(server.dataDir, ['serve', '--port', '0']);
    expect(second.exitCode).toBe(1);
    expect(second.stderr).toContain(
      `Another Baobab server (process ${server.process.pid}) is running on the data directory ${server.dataDir}`,
    );
    expect((await models(server, server.apiKey)).status).toBe(200);
  });

  it('that cannot be used is refused with a message', async () => {
    const file = join(directory, 'a-file');
    await writeFile(file, '');
    const { exitCode, stderr } = await baobab(directory, [
      'accounts',
      'create',
      'team',
      '--data-dir',
      join(file, 'below'),
    ]);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/The data directory .* cannot be used: a part of the path is not a folder\./);
  });

  it.runIf(process.platform === 'linux')('that cannot hold files is refused with a message', async () => {
    const { exitCode, stderr } = await baobab(directory, ['serve', '--port', '0', '--data-dir', '/proc/baobab']);
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: 'baobab: The data directory /proc/baobab cannot hold files. Choose another one with --data-dir.\n',
    });
  });
});

describe('kill -9', () => {
  it('in the middle of creating keys loses none that was acknowledged', async () => {
    const dataDir = await mkdtemp(join(directory, 'kill-'));
    const acknowledged: string[] = [];
    for (let round = 0; round < 3; round += 1) {
      const server = await startServer({ dataDir });
      const wanted = 5 + round * 7;
      let created = 0;
      const lane = async () => {
        for (;;) {
          const answer = await fetch(`${server.address}/v1/admin/keys`, {
            method: 'POST',
            headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
            body: JSON.stringify({ account: 'default', name: `key ${created}` }),
          });
          acknowledged.push(((await answer.json()) as { secret: string }).secret);
          created += 1;
          if (created === wanted) server.process.kill('SIGKILL');
        }
      };
      await Promise.allSettled([lane(), lane(), lane()]);
      await server.kill();
      expect(created).toBeGreaterThanOrEqual(wanted);
    }
    await using server = await startServer({ dataDir });
    for (const secret of acknowledged) expect((await models(server, secret)).status).toBe(200);
    await baobabJson(dataDir, ['keys', 'list']);
  });
});

describe('the log', () => {
  it('has one line for each request with status, duration, key, model and tokens, and no secret or prompt', async () => {
    await using server = await startServer();
    const client = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: server.apiKey, maxRetries: 0 });
    const prompt = 'a very private sentence';
    const { usage } = await client.embeddings.create({ model: 'baai/bge-small-en-v1.5', input: prompt });
    await client.models.list();
    await fetch(`${server.address}/v1/models/%zz?secret=in-the-query`);
    await expect(
      new OpenAI({ baseURL: `${server.address}/v1`, apiKey: 'bao_sk_mistyped', maxRetries: 0 }).models.list(),
    ).rejects.toThrow();
    await server.stop();
    const lines = server
      .output()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line))
      .filter(({ msg }) => msg === 'request');
    const shown = lines.map(({ path, status, code }) => [path, status, code]);
    expect(shown).toEqual([
      ['/v1/embeddings', 200, undefined],
      ['/v1/models', 200, undefined],
      ['/v1/models/%zz', 400, 'invalid_parameter'],
      ['/v1/models', 401, 'invalid_api_key'],
    ]);
    expect(lines[0]).toMatchObject({
      reqId: expect.stringMatching(/^req_/),
      client: '127.0.0.1',
      method: 'POST',
      durationMs: expect.any(Number),
      key: expect.stringMatching(/^key_/),
      model: 'baai/bge-small-en-v1.5',
      promptTokens: usage.prompt_tokens,
    });
    for (const secret of [server.apiKey, 'private', 'bao_sk_', 'in-the-query'])
      expect(server.output()).not.toContain(secret);
  });
});
