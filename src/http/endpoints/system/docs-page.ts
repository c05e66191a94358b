/** A page generated from the OpenAPI document, without scripts and external resources. */

interface SchemaNode {
  type?: string | string[];
  description?: string;
  properties?: Record<string, SchemaNode>;
  required?: string[];
  items?: SchemaNode;
  anyOf?: SchemaNode[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
}

interface Operation {
  summary?: string;
  description?: string;
  tags?: string[];
  security?: unknown[];
  parameters?: { name: string; in: string; required?: boolean; schema?: SchemaNode; description?: string }[];
  requestBody?: { content: Record<string, { schema: SchemaNode }> };
  responses?: Record<string, { content?: Record<string, { schema: SchemaNode }> }>;
}

interface Header {
  schema: SchemaNode;
  description?: string;
}

export interface OpenApiDocument {
  info: { title: string; version: string; description?: string };
  paths: Record<string, Record<string, Operation>>;
  components?: { headers?: Record<string, Header> };
}

const escapeHtml = (text: string): string =>
  text.replace(/[&<>"]/g, (sign) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[sign] as string);

function typeOf(node: SchemaNode): string {
  if (node.enum) return node.enum.map((each) => JSON.stringify(each)).join(' | ');
  if (node.const !== undefined) return JSON.stringify(node.const);
  if (node.anyOf) return [...new Set(node.anyOf.map(typeOf))].join(' | ');
  if (node.items) return `array of ${typeOf(node.items)}`;
  return Array.isArray(node.type) ? node.type.join(' | ') : (node.type ?? 'any');
}

/** The schema of a nullable value without its null. */
function presentValue(node: SchemaNode): SchemaNode {
  const values = node.anyOf?.filter(({ type }) => type !== 'null') ?? [];
  return values.length === 1 ? { ...values[0], ...node } : node;
}

function facts(sent: SchemaNode): string {
  const node = presentValue(sent);
  const range =
    node.minimum !== undefined || node.maximum !== undefined ? `${node.minimum ?? '…'}–${node.maximum ?? '…'}` : '';
  const parts = [node.description, range, node.default === undefined ? '' : `default ${JSON.stringify(node.default)}`];
  return parts
    .filter(Boolean)
    .map((part) => escapeHtml(String(part)))
    .join('; ');
}

function rows(node: SchemaNode, indent = 0): string {
  const branches = node.anyOf ?? [node];
  return branches
    .flatMap((branch) =>
      Object.entries((branch.items ?? branch).properties ?? {}).map(([name, child]) => [branch, name, child] as const),
    )
    .map(([branch, name, child]) => {
      const required = branch.required?.includes(name) ? ' <b>required</b>' : '';
      const inner = indent < 3 ? rows(child, indent + 1) : '';
      return `<tr><td style="padding-left:${indent * 1.4 + 0.4}em"><code>${escapeHtml(name)}</code>${required}</td><td>${escapeHtml(typeOf(child))}</td><td>${facts(child)}</td></tr>${inner}`;
    })
    .join('');
}

const table = (title: string, body: string): string =>
  body === '' ? '' : `<h4>${title}</h4><table><tr><th>Field</th><th>Type</th><th></th></tr>${body}</table>`;

function section(method: string, path: string, operation: Operation): string {
  const id = `${method}${path}`.replace(/[^a-z0-9]+/gi, '-');
  const parameters = (operation.parameters ?? [])
    .map(({ name, schema = {}, required, in: place, description }) => {
      const text = facts({ ...schema, ...(description === undefined ? {} : { description }) });
      return `<tr><td><code>${escapeHtml(name)}</code>${required ? ' <b>required</b>' : ''}</td><td>${escapeHtml(typeOf(schema))} (${place})</td><td>${text}</td></tr>`;
    })
    .join('');
  const [first, ...others] = Object.entries(operation.requestBody?.content ?? {});
  const [type = '', { schema: body } = {}] = first ?? [];
  const also = others.map(([other]) => `, or ${other}`).join('');
  const title = type === 'application/json' ? 'Body' : `Body (${type}${also})`;
  const answer = Object.values(operation.responses?.['200']?.content ?? {})[0]?.schema;
  return `<section id="${id}"><h3><span class="method">${method.toUpperCase()}</span> <code>${escapeHtml(path)}</code></h3>
<p>${escapeHtml(operation.summary ?? '')}${operation.description ? `. ${escapeHtml(operation.description)}` : ''}</p>
${table('Parameters', parameters)}${table(title, body ? rows(body) : '')}
${answer ? `<details><summary>Answer</summary>${table('', rows(answer))}</details>` : ''}</section>`;
}

export function renderDocs(document: OpenApiDocument): string {
  const byTag = new Map<string, string[]>();
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const tag = operation.tags?.[0] ?? 'Other';
      byTag.set(tag, [...(byTag.get(tag) ?? []), section(method, path, operation)]);
    }
  }
  const groups = [...byTag]
    .map(([tag, sections]) => `<h2 id="${escapeHtml(tag)}">${escapeHtml(tag)}</h2>${sections.join('')}`)
    .join('');
  const headers = Object.entries(document.components?.headers ?? {})
    .map(
      ([name, { schema, description = '' }]) =>
        `<tr><td><code>${escapeHtml(name)}</code></td><td>${escapeHtml(typeOf(schema))}</td><td>${escapeHtml(description)}</td></tr>`,
    )
    .join('');
  const links = [...byTag.keys()].map((tag) => `<a href="#${escapeHtml(tag)}">${escapeHtml(tag)}</a>`).join(' · ');
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeHtml(document.info.title)}</title><style>
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code{font-family:ui-monospace,monospace}table{border-collapse:collapse;width:100%;font-size:.9em}
td,th{border-top:1px solid #8884;padding:.3em .4em;text-align:left;vertical-align:top}.method{color:#2a7d46;font-weight:700}
section{border-left:3px solid #8884;padding-left:1rem;margin:1.5rem 0}h3{margin:.2em 0}</style>
<h1>${escapeHtml(document.info.title)} ${escapeHtml(document.info.version)}</h1><p>${escapeHtml(document.info.description ?? '')}</p>
<p>${links} · <a href="/openapi.json">openapi.json</a></p>${table('Headers of answers', headers)}${groups}</html>`;
}
