import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { alive, until } from '../fixtures/engine-bed.ts';
import { postJson } from './post-json.ts';
import { type RunningServer, startServer } from './start-server.ts';

const PROGRAM = fileURLToPath(new URL('../fixtures/programs/fake-engine.ts', import.meta.url));
const directory = await mkdtemp(join(tmpdir(), 'baobab-programs-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

/** A server whose catalog has one model that the fake program serves. */
async function start(name: string): Promise<{ server: RunningServer; folder: string }> {
  const [folder, catalog] = [join(directory, name, 'weights'), join(directory, name, 'catalog')];
  await mkdir(folder, { recursive: true });
  await mkdir(catalog);
  await writeFile(join(folder, 'tiny.gguf'), 'weights');
  const command = [process.execPath, PROGRAM, '--port', '{port}', '--folder', '{folder}', '--model', '{weights}'];
  await writeFile(
    join(catalog, 'writer.yaml'),
    `slug: acme/writer
modality: chat
context_length: 512
pricing: { prompt_per_million: 10, completion_per_million: 20, cache_read_per_million: 5 }
engine:
  driver: command
  kind: llama-server
  command: ${JSON.stringify(command)}
  weights: tiny.gguf
  memory_mb: 64
source: { kind: file, path: ${JSON.stringify(folder)} }
`,
  );
  const server = await startServer({ args: ['--catalog-dir', catalog, '--log-level', 'debug'] });
  return { server, folder };
}

async function ask(server: RunningServer, content: string): Promise<{ status: number; body: unknown }> {
  const body = { model: 'acme/writer', messages: [{ role: 'user', content }] };
  const answer = await postJson(server, '/v1/chat/completions', body);
  return { status: answer.status, body: await answer.json() };
}

const helperIn = async (folder: string): Promise<number> => Number(await readFile(join(folder, 'helper'), 'utf8'));

it('starts a program with the first request, bills each once, and ends it with the server', async () => {
  const { server, folder } = await start('served');
  await using _ = server;
  const answers = await Promise.all([ask(server, 'Hi'), ask(server, 'Hi')]);
  for (const { status, body } of answers) {
    expect(status).toBe(200);
    expect(body).toMatchObject({
      choices: [{ message: { content: 'One two three.' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 9, completion_tokens: 3, cache_read_tokens: 4 },
    });
  }
  const headers = { authorization: `Bearer ${server.apiKey}` };
  const get = async (path: string) => (await fetch(`${server.address}${path}`, { headers })).json();
  const hour = new Date(Date.now() - 3_600_000).toISOString();
  const usage = await get(`/v1/usage?start=${hour}`);
  expect(usage).toMatchObject({ totals: { requests: 2, prompt_tokens: 18, completion_tokens: 6, cost_usd: 0.00026 } });
  const engines = (await get('/v1/admin/engines')) as {
    data: { model: string; status: string; process_ids: number[] }[];
  };
  const engine = engines.data.find(({ model }) => model === 'acme/writer');
  expect(engine).toMatchObject({ driver: 'command', status: 'ready' });
  const [pid = 0] = engine?.process_ids ?? [];
  expect(server.output()).toContain(`"pid":${pid},"msg":"engine: loading `);
  const helper = await helperIn(folder);
  expect([alive(pid), alive(helper)]).toEqual([true, true]);
  await server.stop();
  await until(() => !alive(pid) && !alive(helper));
});

it('ends the program and all that it started when the server is killed', async () => {
  const { server, folder } = await start('killed');
  await using _ = server;
  expect((await ask(server, 'Hi')).status).toBe(200);
  const helper = await helperIn(folder);
  expect(alive(helper)).toBe(true);
  await server.kill();
  await until(() => !alive(helper));
});

it('answers 503 while the program does not start, and shows operators why', async () => {
  const { server, folder } = await start('broken');
  await using _ = server;
  await writeFile(join(folder, 'refuse'), '');
  const { status, body } = await ask(server, 'Hi');
  expect(status).toBe(503);
  expect(body).toMatchObject({ error: { code: 'model_unavailable' } });
  expect(JSON.stringify(body)).not.toContain('nonsense');
  expect(server.output()).toContain('unknown model architecture: nonsense');
});
