import { compareListed } from '@baobab/core/domain/model-order.ts';
import { isoTimeOrNull } from '@baobab/core/domain/time/dates.ts';
import type { EngineReport } from '@baobab/core/engine/report.ts';
import type { WeightsStore } from '../../models/store.ts';
import type { CatalogService } from '../../services/catalog/catalog.ts';
import { snakeKeys } from '../../validation/names.ts';
import { formatBytes, sayWhenSlow } from '../progress.ts';
import { table } from '../table.ts';

export interface ModelListContext {
  store: WeightsStore;
  catalog: CatalogService;
  /** Undefined when no server is running. */
  engines: readonly EngineReport[] | undefined;
  /** Slugs, with an optional pin, of the configured upstreams. */
  upstreamModels: readonly string[];
  /** Also models that cannot be served here. */
  all: boolean;
  json: boolean;
  print(text: string): void;
  warn?: ((text: string) => void) | undefined;
}

/** Lists models with the state of its weights and, if a server is running, of its engine. */
export async function listModels(context: ModelListContext): Promise<void> {
  const { store, catalog, engines, upstreamModels, all, json, print } = context;
  const models = catalog.list({ status: 'all' }).map(({ entry, version }) => ({ entry, version }));
  const stored = models.flatMap(({ entry, version }) =>
    version.source === undefined ? [] : [{ slug: entry.slug, version: version.version, source: version.source }],
  );
  await sayWhenSlow('checking which weights can be fetched', store.probe(stored), context.warn ?? (() => {}));
  const every = models.map(({ entry, version }) => {
    const weights = stored.find(({ slug }) => slug === entry.slug);
    const state = weights === undefined ? undefined : store.state(weights);
    const engine = engines?.find(({ model }) => model === `${entry.slug}@${version.version}`);
    const bytes = state === undefined ? null : state.status === 'present' ? state.bytesOnDisk : state.totalBytes;
    const upstreams = engine?.upstreams ?? [];
    const problems = upstreams.flatMap(({ address, problem }) => (problem ? [`${address}: ${problem}`] : []));
    const hasUpstream = [entry.slug, `${entry.slug}@${version.version}`].some((name) => upstreamModels.includes(name));
    const isServed = hasUpstream || state?.servable === true;
    const status = engine?.status ?? (isServed ? 'cold' : 'unavailable');
    const { slug, modality, starter } = entry;
    return {
      isServed,
      order: {
        slug,
        modality,
        starter,
        status: status === 'ready' || status === 'unavailable' ? status : ('cold' as const),
      },
      id: entry.slug,
      version: version.version,
      modality: entry.modality,
      weights: state?.status ?? 'upstream only',
      bytes,
      engine: engine?.status ?? null,
      // Upstreams come first, as for requests. The command looks at the weights itself, and its reason names the path or host.
      reason:
        (problems.join('; ') || undefined) ??
        (state?.servable === false ? state.reason : undefined) ??
        engine?.reason ??
        (isServed || state !== undefined ? null : 'no upstream is configured for it'),
      status,
      upstreams,
      deprecated_at: isoTimeOrNull(version.deprecatedAt),
    };
  });
  const rows = every
    .filter(({ isServed, status, upstreams }) => all || isServed || upstreams.length > 0 || status !== 'unavailable')
    .sort((one, other) => compareListed(one.order, other.order))
    .map(({ isServed: _, order: __, ...row }) => row);
  if (json) {
    print(JSON.stringify(snakeKeys(rows)));
    return;
  }
  const cells = rows.map((row) => [
    row.id,
    row.version,
    row.modality,
    row.weights,
    row.bytes === null ? '-' : formatBytes(row.bytes),
    row.status,
    [row.deprecated_at === null ? '' : `removed on ${row.deprecated_at.slice(0, 10)}`, row.reason ?? '']
      .filter(Boolean)
      .join('; '),
  ]);
  print(table(['MODEL', 'VERSION', 'MODALITY', 'WEIGHTS', 'SIZE', 'STATUS', ''], cells));
  const here = rows.filter(({ weights }) => weights === 'present').length;
  const hidden = every.length - rows.length;
  const more = hidden === 0 ? '' : `; ${hidden} more that cannot be served here, with --all`;
  print(`\n${rows.length} models; ${here} with weights here${more}`);
}
