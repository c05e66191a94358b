import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { ggufFile } from '../../../packages/engines/src/llama/testing/gguf-file.ts';
import { startLocalServer } from '../../../packages/server/src/catalog/adding/testing/local-server.ts';
import { modelsCommand } from '../../../packages/server/src/cli/models/models.ts';
import { loadConfig } from '../../../packages/server/src/config/load.ts';
import { startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import { startHttpBed } from './bed.ts';

const dataDir = await mkdtemp(join(tmpdir(), 'baobab-added-'));
const upstream = await startFakeUpstream('vllm');
upstream.behaviour.models = ['Acme/Writer-8B'];
const bed = await startHttpBed({ data_dir: dataDir, upstreams: [] });
afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await upstream.close();
  await rm(dataDir, { recursive: true, force: true });
});

async function models(...args: string[]): Promise<string> {
  const { config, rest } = loadConfig({ args, env: { BAOBAB_DATA_DIR: dataDir }, workingDirectory: dataDir });
  const lines: string[] = [];
  const context = { args: rest, config, configFile: undefined, locate: () => '', env: { HOME: dataDir } };
  await modelsCommand.run({ ...context, print: (line) => lines.push(line) });
  return lines.join('\n');
}

const chat = async (model: string) => {
  const answer = await bed.post('/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Hi' }] });
  await answer.arrayBuffer();
  return answer.status;
};

it('serves an upstream that a command adds, without a restart, until it is removed', async () => {
  expect(await chat('acme/added')).toBe(404);
  const printed = await models('add', upstream.url, '--slug', 'acme/added', '--modality', 'chat');
  expect(printed).toMatch(/^added acme\/added \(chat, .*\); the running server serves it now$/m);
  expect(await chat('acme/added')).toBe(200);
  expect(await models('list')).toContain('acme/added');
  await expect(models('add', upstream.url, '--slug', 'acme/added')).rejects.toThrow('acme/added was added already');
  expect(await models('remove', 'acme/added')).toContain(
    'removed acme/added from the catalog; the running server has stopped serving it',
  );
  expect(await chat('acme/added')).toBe(404);
});

it('adds the hub model of the README, beside the one that the catalog has', async () => {
  const repo = 'Qwen/Qwen3-4B-GGUF';
  const file = 'Qwen3-4B-Q4_K_M.gguf';
  const commit = 'c'.repeat(40);
  const hub = await startLocalServer({
    [`/api/models/${repo}/revision/main?blobs=true`]: { sha: commit, siblings: [{ rfilename: file, size: 9 }] },
    [`/${repo}/resolve/${commit}/${file}`]: ggufFile({
      'general.architecture': 'qwen3',
      'qwen3.context_length': 40_960,
    }),
  });
  const printed = await models('add', `hf:${repo}:Q4_K_M`, '--models-hf-endpoint', hub.address);
  hub.close();
  expect(printed).toMatch(/^added qwen\/qwen3-4b-q4_k_m \(chat, context 40960\); the running server serves it now$/m);
  expect(printed).toContain('the catalog has another model qwen/qwen3-4b, so this one is qwen/qwen3-4b-q4_k_m');
  expect(await readFile(join(dataDir, 'catalog/qwen/qwen3-4b-q4_k_m.yaml'), 'utf8')).toContain(`revision: ${commit}`);
  await models('remove', 'qwen/qwen3-4b-q4_k_m');
});

it('adds and removes models over the admin API', async () => {
  const added = await bed.post('/v1/admin/models', { source: upstream.url, slug: 'acme/api', modality: 'chat' });
  expect([added.status, await added.json()]).toMatchObject([200, { id: 'acme/api', modality: 'chat' }]);
  expect(await chat('acme/api')).toBe(200);
  const removed = await bed.fetch('/v1/admin/models/acme/api', { method: 'DELETE' });
  expect(await removed.json()).toEqual({ id: 'acme/api', deleted: true });
  expect(await chat('acme/api')).toBe(404);
  expect((await bed.fetch('/v1/admin/models/acme/api', { method: 'DELETE' })).status).toBe(404);
});

it('refuses what it cannot add, and writes nothing outside its folder', async () => {
  const refusal = async (body: object) => {
    const answer = await bed.post('/v1/admin/models', body);
    const { error } = (await answer.json()) as { error: { message: string; param: string } };
    return [answer.status, error.message];
  };
  expect(await refusal({ source: '/does/not/exist.gguf' })).toEqual([
    400,
    expect.stringContaining('there is no file or folder /does/not/exist.gguf'),
  ]);
  expect(await refusal({ source: upstream.url, slug: '../../escape', modality: 'chat' })).toEqual([
    400,
    expect.stringContaining("'../../escape' is not a slug"),
  ]);
  expect((await bed.fetch('/v1/admin/models/..%2F..%2Fbaobab', { method: 'DELETE' })).status).toBe(404);
});
