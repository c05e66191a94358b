import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startStrongModel } from '../clients/strong-model.ts';
import { type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { baobab } from './command.ts';
import { type RunningServer, startServer } from './start-server.ts';

const ROOT = join(import.meta.dirname, '../..');
const MODEL = 'qwen/qwen2.5-0.5b-instruct';
const SLOW_MODEL = 'qwen/qwen2.5-1.5b-instruct';
/** With prompts of 50 tokens, 200 tokens a second. */
const SLOW_MS = 250;

interface KeyFields {
  id: string;
  name: string;
  monthly_budget_usd: number | null;
}

describe('launch', () => {
  let model: Awaited<ReturnType<typeof startStrongModel>>;
  let slow: FakeUpstream;
  let server: RunningServer;
  let programs: string;
  let directory: string;
  beforeAll(async () => {
    model = await startStrongModel();
    slow = await startFakeUpstream('openai', { firstByteDelayMs: SLOW_MS, promptTokens: 50 });
    const upstreams = [
      { model: MODEL, url: model.url, kind: 'vllm' },
      { model: SLOW_MODEL, url: slow.url, kind: 'openai' },
    ];
    server = await startServer({ env: { BAOBAB_UPSTREAMS: JSON.stringify(upstreams) } });
    programs = await mkdtemp(join(tmpdir(), 'baobab-programs-'));
    // Writes what it was given, and ends as it was told.
    const program = `#!/bin/sh
printf '%s\\n' "$@" > "$REPORT/arguments"
env > "$REPORT/variables"
if [ "$WAITS" ]; then trap 'exit 3' TERM; touch "$REPORT/started"; while :; do sleep 0.05; done; fi
exit 7
`;
    for (const name of ['codex', 'claude']) await writeFile(join(programs, name), program, { mode: 0o755 });
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await slow?.close();
    await model?.[Symbol.asyncDispose]();
    if (programs !== undefined) await rm(programs, { recursive: true });
  });
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'baobab-launch-'));
    return () => rm(directory, { recursive: true });
  });

  const environment = () => ({
    BAOBAB_API_KEY: server.apiKey,
    ANTHROPIC_API_KEY: 'of-the-user',
    PATH: `${programs}:${process.env.PATH}`,
    REPORT: directory,
  });
  const launch = (args: readonly string[], env: Record<string, string> = {}) =>
    baobab(directory, ['launch', '--address', server.address, ...args], { ...environment(), ...env });
  const read = (name: string) => readFile(join(directory, name), 'utf8');
  const variable = async (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(await read('variables'))?.[1];
  const headers = () => ({ authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' });
  /** The fields of a key that can be used. */
  async function keyOf(secret = ''): Promise<KeyFields | undefined> {
    const answer = await fetch(`${server.address}/v1/keys/me`, { headers: { authorization: `Bearer ${secret}` } });
    expect(answer.status).toBe(200);
    const { id } = (await answer.json()) as KeyFields;
    const { data } = (await (await fetch(`${server.address}/v1/keys`, { headers: headers() })).json()) as {
      data: KeyFields[];
    };
    return data.find((key) => key.id === id);
  }

  it('starts Codex with the server, a model that fits, a key with a budget and the arguments after --', async () => {
    const { exitCode, stderr } = await launch(['codex', '--model', MODEL, '--', 'exec', '--port', '--help']);
    expect(exitCode, stderr).toBe(7);
    const given = (await read('arguments')).trim().split('\n');
    expect(given.slice(-3)).toEqual(['exec', '--port', '--help']);
    expect(given).toContain(`model="${MODEL}"`);
    expect(given).toContain('model_context_window=32768');
    expect(given.join('\n')).toContain(`base_url="${server.address}/v1"`);
    const secret = await variable('BAOBAB_API_KEY');
    expect(secret).not.toBe(server.apiKey);
    expect(given.join()).not.toContain(secret);
    expect(await keyOf(secret)).toMatchObject({ name: 'launch-codex', monthly_budget_usd: 10 });
    expect(stderr).toMatch(/reads about \d+ tokens\/s here: \d+ s for the instructions of Codex/);
    expect(stderr).toContain('its key launch-codex has a budget of $10 a month');
  });

  it('rotates the key of a client at its next start, and changes its budget on request', async () => {
    await launch(['claude', '--model', MODEL, '--budget', '2.5']);
    const first = await variable('ANTHROPIC_AUTH_TOKEN');
    expect(await keyOf(first)).toMatchObject({ name: 'launch-claude', monthly_budget_usd: 2.5 });
    await launch(['claude', '--model', MODEL]);
    const second = await variable('ANTHROPIC_AUTH_TOKEN');
    expect(second).not.toBe(first);
    expect(await keyOf(second)).toMatchObject({ name: 'launch-claude', monthly_budget_usd: 2.5 });
    await launch(['claude', '--model', MODEL, '--budget', '4']);
    expect(await keyOf(await variable('ANTHROPIC_AUTH_TOKEN'))).toMatchObject({ monthly_budget_usd: 4 });
    // A client that still runs goes on.
    expect(await keyOf(first)).toMatchObject({ name: 'launch-claude' });
  });

  it('starts Claude Code without the key of the user', async () => {
    const { exitCode } = await launch(['claude', '--model', MODEL, '--', '-p', 'two words']);
    expect(exitCode).toBe(7);
    expect(await read('arguments')).toBe(`--model\n${MODEL}\n-p\ntwo words\n`);
    expect(await variable('ANTHROPIC_BASE_URL')).toBe(server.address);
    expect(await variable('ANTHROPIC_API_KEY')).toBeUndefined();
    expect(await variable('CLAUDE_CODE_MAX_CONTEXT_TOKENS')).toBe('32768');
  });

  it('says that a model is too slow, and starts all the same', async () => {
    const { exitCode, stderr } = await launch(['codex', '--model', SLOW_MODEL]);
    expect(exitCode).toBe(7);
    const seconds = Number(/: (\d+) s for the instructions/.exec(stderr)?.[1]);
    expect(seconds).toBeGreaterThan(7_300 / 200);
    expect(stderr).toContain('That is too slow to work with');
  });

  it('uses a key that may not make others, but gives it no budget', async () => {
    const body = JSON.stringify({ name: 'plain', scopes: ['inference', 'models'] });
    const { secret } = (await (
      await fetch(`${server.address}/v1/keys`, { method: 'POST', headers: headers(), body })
    ).json()) as {
      secret: string;
    };
    const env = { BAOBAB_API_KEY: secret };
    const { exitCode, stderr } = await launch(['codex', '--model', MODEL], env);
    expect(exitCode, stderr).toBe(7);
    expect(stderr).toContain('your key may not make keys: Codex uses it');
    expect(await variable('BAOBAB_API_KEY')).toBe(secret);
    expect(await launch(['codex', '--model', MODEL, '--budget', '5'], env)).toMatchObject({ exitCode: 1 });
  });

  it('passes signals on and ends as the client does', async () => {
    const main = join(ROOT, 'packages/server/src/main.ts');
    const args = ['launch', '--address', server.address, 'codex', '--model', MODEL];
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('BAOBAB_'));
    const child = spawn(process.execPath, [main, ...args], {
      cwd: directory,
      env: { ...Object.fromEntries(inherited), BAOBAB_DATA_DIR: directory, ...environment(), WAITS: 'yes' },
      stdio: 'ignore',
    });
    const ended = once(child, 'close');
    await expect.poll(() => existsSync(join(directory, 'started'))).toBe(true);
    child.kill('SIGTERM');
    expect(await ended).toEqual([3, null]);
  });

  it('says what is missing: the client, a model with room for it, the model that was named', async () => {
    expect((await launch(['codex'], { PATH: '/nonexistent' })).stderr).toContain(
      "Codex is not installed; run 'npm install -g @openai/codex'",
    );
    const small = await launch(['codex', '--model', 'baobab/chat-mini']);
    expect(small.stderr).toContain(
      'baobab/chat-mini is no model for Codex: it has a context of 8192 tokens, and the instructions alone take about 7300',
    );
    expect((await launch(['claude', '--model', 'acme/none'])).stderr).toContain("there is no chat model 'acme/none'");
  });
});
