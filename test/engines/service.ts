import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { startService } from '../../packages/server/src/compose/service.ts';
import { loadConfig } from '../../packages/server/src/config/load.ts';
import type { UpstreamKind } from '../../packages/server/src/upstreams/dialects/dialects.ts';

export const KEY = 'engines-suite-key-0123456789';
export const MODEL = 'engine/model';
/** Nothing listens there. */
const NOWHERE = 'http://127.0.0.1:9';

export interface ServiceModel {
  task: 'chat' | 'embedding' | 'rerank';
  kind: UpstreamKind;
  /** What the engine calls it. */
  name: string;
  url: string;
  contextLength: number;
  dimensions?: number | undefined;
  vision?: boolean | undefined;
}

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

export interface TestService extends AsyncDisposable {
  address: string;
  post(path: string, body: unknown, signal?: AbortSignal): Promise<Answer>;
  fetch(path: string, options?: RequestInit): Promise<Response>;
  /** Returns the id of the file. */
  upload(file: File, purpose: string): Promise<string>;
}

/** Baobab with one model of the catalog behind one upstream. */
export async function startTestService(model: ServiceModel): Promise<TestService> {
  const directory = await mkdtemp(join(tmpdir(), 'baobab-engines-'));
  const entry = {
    slug: MODEL,
    modality: model.task,
    context_length: model.contextLength,
    ...(model.dimensions === undefined ? {} : { dimensions: model.dimensions, truncation: true }),
    capabilities: { vision: model.vision ?? false },
    pricing: { prompt_per_million: 1, completion_per_million: 1, cache_read_per_million: 0.5 },
    engine: { driver: 'remote', task: model.task === 'rerank' ? 'cross-encoder' : model.task },
  };
  const settings = {
    data_dir: join(directory, 'data'),
    catalog_dir: join(directory, 'catalog'),
    port: 0,
    first_key: KEY,
    log: { level: 'silent' },
    models: { hf_endpoint: NOWHERE, maven_repository: NOWHERE },
    upstreams: [{ model: MODEL, url: model.url, kind: model.kind, name: model.name }],
  };
  await mkdir(settings.catalog_dir);
  await writeFile(join(settings.catalog_dir, 'model.yaml'), stringify(entry));
  await writeFile(join(directory, 'baobab.yaml'), stringify(settings));
  const { config } = loadConfig({ args: [], env: {}, workingDirectory: directory });
  const service = await startService(config, { env: { npm_config_registry: NOWHERE, HOME: directory } });
  const call: TestService['fetch'] = (path, options = {}) =>
    fetch(`${service.address}${path}`, {
      ...options,
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    });
  return {
    address: service.address,
    fetch: call,
    async upload(file, purpose) {
      const form = new FormData();
      form.append('purpose', purpose);
      form.append('file', file);
      const headers = { authorization: `Bearer ${KEY}` };
      const answer = await fetch(`${service.address}/v1/files`, { method: 'POST', headers, body: form });
      return ((await answer.json()) as { id: string }).id;
    },
    async post(path, body, signal) {
      const answer = await call(path, { method: 'POST', body: JSON.stringify(body), signal: signal ?? null });
      return { status: answer.status, headers: answer.headers, text: await answer.text() };
    },
    async [Symbol.asyncDispose]() {
      await service.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
