import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { parseReference } from '@baobab/core/domain/slug.ts';
import { ConfigError, type ResolvedConfig } from '../config/load.ts';
import { type CertificateFiles, readCertificate } from '../http/connections/certificate.ts';

/** Settings that are right for one server and wrong for several. How many there are cannot be known here. */
export function multiServerWarnings({ store, counters, blobs }: ResolvedConfig): string[] {
  const warnings: string[] = [];
  if (store !== undefined && counters === undefined) {
    warnings.push(
      'counters are in memory although the store can be shared: with several servers every one allows the whole limits and budgets. Set counters: redis://…',
    );
  }
  if (store !== undefined && blobs === undefined) {
    warnings.push(
      'blobs are on this disk although the store can be shared: other servers cannot read files and batches. Set blobs: s3://bucket/prefix',
    );
  }
  if (store === undefined && counters !== undefined) {
    warnings.push(
      'counters are in Redis although the store is SQLite on this machine: no other server may use the same Redis database. For several servers set store: postgres://…',
    );
  }
  return warnings;
}

/** The files of the TLS certificate, if one is configured. Checks them before anything is opened. */
export async function certificateFiles(
  { tls }: Pick<ResolvedConfig, 'tls'>,
  locate: (path: readonly string[]) => string,
): Promise<CertificateFiles | undefined> {
  const { cert, key } = tls;
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined) {
    const [given, missing] = cert === undefined ? ['key', 'cert'] : ['cert', 'key'];
    throw new ConfigError(`${locate(['tls', given])}: tls.${given} needs tls.${missing} too`);
  }
  try {
    await readCertificate({ cert, key });
  } catch (error) {
    throw new ConfigError(
      `${locate(['tls', 'cert'])}: tls: the certificate cannot be used: ${(error as Error).message}`,
    );
  }
  return { cert, key };
}

function isKnown(name: string, entries: ReadonlyMap<string, ModelEntry>): boolean {
  const reference = parseReference(name);
  const entry = reference && entries.get(reference.slug);
  return entry?.versions.some(({ version }) => version === (reference?.version ?? entry.recommended)) ?? false;
}

/** A misspelt slug would otherwise silently leave a model cold, without its upstream or without its alias. */
export function checkNamedModels(
  { models, upstreams, aliases }: Pick<ResolvedConfig, 'models' | 'upstreams' | 'aliases'>,
  entries: readonly ModelEntry[],
  locate: (path: readonly string[]) => string,
): void {
  const bySlug = new Map(entries.map((entry) => [entry.slug, entry]));
  const named = [
    ...models.warm.map((name, index) => ({ name, path: ['models', 'warm', `${index}`] })),
    ...upstreams.map(({ model }, index) => ({ name: model, path: ['upstreams', `${index}`, 'model'] })),
    ...aliases.map(({ model }, index) => ({ name: model, path: ['aliases', `${index}`, 'model'] })),
  ];
  const report = (path: readonly string[], text: string) => `${locate(path)}: ${path.join('.')}: ${text}`;
  const problems = named
    .filter(({ name }) => !isKnown(name, bySlug))
    .map(({ name, path }) =>
      report(
        path,
        `there is no model '${name}' in the catalog; ` +
          "'baobab models list' shows those that are, and catalog_dir adds others",
      ),
    );
  for (const [index, { name }] of aliases.entries()) {
    const path = ['aliases', `${index}`, 'name'];
    if (bySlug.has(name)) problems.push(report(path, `'${name}' is a model of the catalog`));
    if (aliases.findIndex((each) => each.name === name) < index)
      problems.push(report(path, `'${name}' is there twice`));
  }
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));
}
