/**
 * Writes fixtures/kubernetes/: what kubeconform checks the chart with, so that the test needs no network.
 *
 *   node test/deploy/kubernetes-schemas.ts
 *
 * The schemas come from the OpenAPI document of Kubernetes and from the Prometheus operator, as the Go proxy has them.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';

const KUBERNETES = 'k8s.io/kubernetes@v1.37.0';
const OPERATOR = 'github.com/prometheus-operator/prometheus-operator@v0.94.1';
const CRDS = 'example/prometheus-operator-crd/monitoring.coreos.com_';
const TARGET = join(import.meta.dirname, 'fixtures/kubernetes');

/** What the chart has. */
const KINDS: Record<string, string> = {
  ConfigMap: 'io.k8s.api.core.v1',
  Service: 'io.k8s.api.core.v1',
  ServiceAccount: 'io.k8s.api.core.v1',
  Deployment: 'io.k8s.api.apps.v1',
  StatefulSet: 'io.k8s.api.apps.v1',
  HorizontalPodAutoscaler: 'io.k8s.api.autoscaling.v2',
  Ingress: 'io.k8s.api.networking.v1',
  NetworkPolicy: 'io.k8s.api.networking.v1',
  PodDisruptionBudget: 'io.k8s.api.policy.v1',
};
const OPERATOR_KINDS = { PrometheusRule: 'prometheusrules', ServiceMonitor: 'servicemonitors' };

type Json = Record<string, unknown>;

function moduleFolder(name: string): string {
  const cwd = mkdtempSync(join(tmpdir(), 'baobab-schemas-'));
  const { status, stdout, stderr } = spawnSync('go', ['mod', 'download', '-json', name], { cwd, encoding: 'utf8' });
  rmSync(cwd, { recursive: true });
  if (status !== 0) throw new Error(`${name} cannot be fetched: ${stdout}${stderr}`);
  return (JSON.parse(stdout) as { Dir: string }).Dir;
}

/** Without words, and strict: a field that Kubernetes does not know is a mistake of the chart. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { description: _, format, default: __, ...rest } = schema as Json;
  if (format === 'int-or-string' || rest['x-kubernetes-int-or-string'] === true) return { type: ['string', 'integer'] };
  const kept = Object.entries(rest).filter(([name]) => !name.startsWith('x-kubernetes-'));
  const isOpen = rest.additionalProperties !== undefined || rest['x-kubernetes-preserve-unknown-fields'] === true;
  return {
    ...Object.fromEntries(
      kept.map(([name, value]) =>
        // Names of fields, which may be `description` or `format`.
        name === 'properties' && typeof value === 'object' && value !== null
          ? [name, Object.fromEntries(Object.entries(value).map(([field, each]) => [field, strict(each)]))]
          : [name, strict(value)],
      ),
    ),
    ...(rest.properties !== undefined && !isOpen && { additionalProperties: false }),
  };
}

const { definitions } = JSON.parse(
  readFileSync(join(moduleFolder(KUBERNETES), 'api/openapi-spec/swagger.json'), 'utf8'),
) as { definitions: Record<string, Json> };
const used = new Map<string, unknown>();
function use(name: string): void {
  if (used.has(name)) return;
  const schema = name.endsWith('.Quantity') ? { type: ['string', 'number'] } : strict(definitions[name]);
  used.set(name, schema);
  for (const [, next = ''] of JSON.stringify(schema).matchAll(/#\/definitions\/([\w.-]+)/g)) use(next);
}

rmSync(TARGET, { recursive: true, force: true });
mkdirSync(TARGET, { recursive: true });
const write = (name: string, content: unknown): void =>
  writeFileSync(join(TARGET, `${name}.json`), `${JSON.stringify(content)}\n`);
for (const [kind, group] of Object.entries(KINDS)) {
  use(`${group}.${kind}`);
  write(kind.toLowerCase(), { $ref: `definitions.json#/definitions/${group}.${kind}` });
}
write('definitions', { definitions: Object.fromEntries([...used].toSorted(([a], [b]) => (a < b ? -1 : 1))) });
const operator = moduleFolder(OPERATOR);
for (const [kind, plural] of Object.entries(OPERATOR_KINDS)) {
  const { spec } = parse(readFileSync(join(operator, `${CRDS}${plural}.yaml`), 'utf8')) as {
    spec: { versions: { schema: { openAPIV3Schema: Json } }[] };
  };
  const schema = strict(spec.versions[0]?.schema.openAPIV3Schema) as { properties: Json };
  // A CRD leaves these to Kubernetes.
  schema.properties.metadata = {
    $ref: 'definitions.json#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta',
  };
  write(kind.toLowerCase(), schema);
}
