import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadCatalog } from '../../packages/server/src/catalog/load.ts';
import { CatalogFile } from '../../packages/server/src/catalog/schema.ts';
import { loadConfig } from '../../packages/server/src/config/load.ts';
import { drivers } from '../../packages/server/src/drivers.ts';
import { UpstreamSchema } from '../../packages/server/src/upstreams/upstream-settings.ts';
import { snake } from '../../packages/server/src/validation/names.ts';
import { type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { startServer } from './start-server.ts';

const ROOT = join(import.meta.dirname, '../..');

/** The files shown in docs/catalog.md must work unchanged, except for addresses and paths. */
describe('the page about the catalog', async () => {
  const page = await readFile(join(ROOT, 'docs/catalog.md'), 'utf8');
  let upstream: FakeUpstream;
  let directory: string;
  const configuration = () => join(directory, 'baobab.yaml');

  beforeAll(async () => {
    upstream = await startFakeUpstream('vllm', { contextLength: 32_768 });
    directory = await mkdtemp(join(tmpdir(), 'baobab-catalog-page-'));
    for (const [, name = '', content = ''] of page.matchAll(/```yaml\n# \/etc\/baobab\/(\S+)\n([\s\S]*?)```/g)) {
      const path = join(directory, name);
      await mkdir(dirname(path), { recursive: true });
      await writeFile(
        path,
        content
          .replaceAll('/etc/baobab', directory)
          .replaceAll('http://127.0.0.1:8000/v1', upstream.url)
          .replaceAll('/srv/models/acme-embed', join(ROOT, 'models/embed-multilingual/2026-11-20')),
      );
    }
  });
  afterAll(async () => {
    await upstream.close();
    await rm(directory, { recursive: true, force: true });
  });

  it('shows files that the loader takes', () => {
    const { config } = loadConfig({ args: ['--config', configuration()], env: {}, workingDirectory: directory });
    expect(config.catalogDir).toBe(join(directory, 'catalog'));
    expect(loadCatalog([config.catalogDir ?? '']).map(({ slug }) => slug)).toEqual(['acme/embed', 'acme/writer-8b']);
  });

  it('shows files that a server serves', async () => {
    await using server = await startServer({ args: ['--config', configuration()] });
    const client = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: server.apiKey });
    const chat = await client.chat.completions.create({
      model: 'acme/writer-8b',
      messages: [{ role: 'user', content: 'Hello' }],
    });
    expect(chat.choices[0]?.message.content).toBe('Hello from the other side.');
    expect(upstream.requests.at(-1)?.body).toMatchObject({ model: 'acme/Writer-8B' });
    const { data: alias, response } = await client.chat.completions
      .create({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] })
      .withResponse();
    expect(alias.model).toBe('gpt-4o-mini');
    expect(response.headers.get('x-served-model')).toBe('acme/writer-8b@2026-10-01');
    const usage = await client.get<{ buckets: { model: string; requests: number }[] }>('/usage', {
      query: { start: '2020-01-01', bucket: 'month', group_by: 'model' },
    });
    expect(usage.buckets).toMatchObject([{ model: 'acme/writer-8b', requests: 2 }]);
    const { data } = await client.embeddings.create({
      model: 'acme/embed@2026-11-01',
      input: 'Habari',
      dimensions: 64,
    });
    expect(data[0]?.embedding).toHaveLength(64);
  });

  it('lists every field, and the defaults of upstreams', () => {
    const { versions, ...fields } = CatalogFile.properties;
    const { engine, source, ...dates } = versions.items.properties;
    const ofDrivers = drivers.flatMap(({ tasks }) => Object.values(tasks));
    const parts = [fields, dates, engine.properties, source.properties, ...ofDrivers];
    const names = parts.flatMap((each) => Object.keys(each));
    for (const name of [...names, 'versions', 'engine', 'source']) expect(page, name).toContain(`\`${snake(name)}\``);
    for (const [name, schema] of Object.entries(UpstreamSchema.properties)) {
      const { default: value } = schema as { default?: string | number };
      const told = typeof value === 'string' ? `\`${value}\`` : (value ?? '');
      expect(page).toContain(`| \`${snake(name)}\` | ${told}`);
    }
    const kinds = (UpstreamSchema.properties.kind as unknown as { enum: string[] }).enum;
    for (const kind of kinds) expect(page).toContain(`\n| \`${kind}\` | `);
  });
});
