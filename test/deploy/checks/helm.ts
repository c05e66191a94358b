import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import type { Check } from '../check.ts';
import { goTool, run, succeed } from '../tools.ts';

const ROOT = join(import.meta.dirname, '../../..');
const CHART = join(ROOT, 'deploy/helm/baobab');
const FIXTURES = join(import.meta.dirname, '../fixtures');
/** Of the schemas in fixtures/kubernetes. Helm would assume an old one. */
const KUBERNETES = '1.37.0';

const VALUES = globSync('*.yaml', { cwd: join(FIXTURES, 'values') }).toSorted();
const valuesOf = (file: string) => join(FIXTURES, 'values', file);

interface KubernetesObject {
  kind: string;
  metadata: { name: string };
  data?: Record<string, string>;
  /** kubeconform has checked the shape. */
  spec: unknown;
}

const TEMPLATE = ['template', 'baobab', CHART, '--kube-version', KUBERNETES];

const template = async (...args: string[]): Promise<string> => succeed(goTool('helm'), [...TEMPLATE, ...args]);

async function objectsOf(file: string): Promise<KubernetesObject[]> {
  const documents = parseAllDocuments(await template('--values', valuesOf(file)));
  return documents.map((document) => document.toJS() as KubernetesObject).filter((each) => each !== null);
}

const config = async (file: string): Promise<object> => {
  const found = (await objectsOf(file)).find(({ data }) => data?.['baobab.yaml'] !== undefined);
  return parse(found?.data?.['baobab.yaml'] ?? '');
};

async function refusal(file: string, ...args: string[]): Promise<string> {
  const { code, stderr } = await run(goTool('helm'), [...TEMPLATE, '--values', valuesOf(file), ...args]);
  assert.notEqual(code, 0, args.join(' '));
  return stderr;
}

export const checks: readonly Check[] = [
  {
    name: 'helm lint finds nothing in the chart',
    async run() {
      const helm = goTool('helm');
      for (const file of VALUES) await succeed(helm, ['lint', '--strict', CHART, '--values', valuesOf(file)]);
      return VALUES.map((file) => basename(file, '.yaml')).join(', ');
    },
  },
  {
    name: 'Kubernetes would take every object of the chart',
    async run() {
      const kubeconform = goTool('kubeconform');
      const schemas = join(FIXTURES, 'kubernetes/{{.ResourceKind}}.json');
      const folder = await mkdtemp(join(tmpdir(), 'baobab-chart-'));
      try {
        for (const file of VALUES) await writeFile(join(folder, file), await template('--values', valuesOf(file)));
        return (await succeed(kubeconform, ['-strict', '-summary', '-schema-location', schemas, folder])).trim();
      } finally {
        await rm(folder, { recursive: true });
      }
    },
  },
  {
    name: 'the settings that follow from values',
    async run() {
      assert.deepEqual(await config('one-server.yaml'), { http: { drain_delay_ms: 5_000 } });
      const { public_url, http, catalog_dir, files } = (await config('company.yaml')) as Record<string, unknown>;
      assert.equal(public_url, 'https://api.example.com');
      assert.deepEqual(http, { drain_delay_ms: 5_000, trusted_proxies: ['10.244.0.0/16'] });
      assert.equal(catalog_dir, '/etc/baobab-catalog');
      assert.deepEqual(files, { max_bytes: 1_073_741_824 });
      assert.equal(((await config('no-disk.yaml')) as { store_journal: boolean }).store_journal, false);
      const kinds = await Promise.all(VALUES.map(objectsOf));
      const workloads = kinds.map((all) => all.find(({ kind }) => /^(StatefulSet|Deployment)$/.test(kind))?.kind);
      assert.deepEqual(workloads, ['StatefulSet', 'Deployment', 'StatefulSet']);
      return undefined;
    },
  },
  {
    name: "Baobab takes the chart's configuration and serves the company's model",
    async run() {
      const folder = await mkdtemp(join(tmpdir(), 'baobab-chart-'));
      try {
        const catalog = join(folder, 'catalog');
        await mkdir(catalog);
        await writeFile(join(folder, 'vllm'), 'a-key');
        for (const { kind, metadata, data = {} } of await objectsOf('company.yaml')) {
          if (kind !== 'ConfigMap' || metadata.name.endsWith('-dashboard')) continue;
          for (const [name, text] of Object.entries(data)) {
            const here = text.replace('/etc/baobab-catalog', catalog).replace('/run/secrets/baobab/upstreams', folder);
            await writeFile(join(name === 'baobab.yaml' ? folder : catalog, name), here);
          }
        }
        const listed = await succeed(
          process.execPath,
          [join(ROOT, 'bin/baobab.mjs'), 'models', 'list', '--config', join(folder, 'baobab.yaml')],
          { cwd: folder, env: { ...process.env, BAOBAB_DATA_DIR: join(folder, 'data') } },
        );
        assert.match(listed, /acme\/writer-8b/);
      } finally {
        await rm(folder, { recursive: true });
      }
      return undefined;
    },
  },
  {
    name: 'pods may connect only where the values say',
    async run() {
      const [policy] = (await objectsOf('company.yaml')).filter(({ kind }) => kind === 'NetworkPolicy');
      assert.ok(policy);
      const { egress, ingress } = policy.spec as {
        egress: { to?: object[]; ports: { port: number }[] }[];
        ingress: { from?: object[] }[];
      };
      const ports = egress.flatMap((rule) => rule.ports.map(({ port }) => port)).toSorted((a, b) => a - b);
      assert.deepEqual(ports, [53, 53, 443, 5432, 6379, 8000]);
      assert.ok(egress.every(({ to }) => to !== undefined && to.length > 0));
      assert.equal(ingress.length, 1);
      assert.equal(ingress[0]?.from?.length, 1);
      return undefined;
    },
  },
  {
    name: 'mistakes in values are refused with what to do',
    async run() {
      assert.match(await refusal('one-server.yaml', '--set=replicas=2'), /existingSecret .* and blobs/);
      assert.match(await refusal('one-server.yaml', '--set=data.persistent=false'), /keys and bills go away/);
      assert.match(await refusal('company.yaml', '--set=ingress.trustedProxies=null'), /ingress\.trustedProxies/);
      for (const name of ['store', 'counters', 'blobs', 'upstreams']) {
        assert.match(
          await refusal('company.yaml', `--set=networkPolicy.egress.${name}=null`),
          new RegExp(`networkPolicy\\.egress.*${name}`),
        );
      }
      return undefined;
    },
  },
];
