import type { ModelEntry, ModelVersion } from '@baobab/core/domain/model.ts';
import { parseReference } from '@baobab/core/domain/slug.ts';
import { isoTimeOrNull } from '@baobab/core/domain/time/dates.ts';
import type { ComputeDevice } from '@baobab/core/engine/engine.ts';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import { nearestSlug } from '@baobab/core/runtime/nearest.ts';
import { openAdministration, openCatalogForReading } from '../../compose/administration.ts';
import { allUpstreams, lookedInText } from '../../compose/storage.ts';
import { openWeights } from '../../compose/weights.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { askEngines } from '../../control/client.ts';
import { createLogger } from '../../logging/logger.ts';
import type { StoredModel } from '../../models/store.ts';
import { snakeKeys } from '../../validation/names.ts';
import { nothing, one, readAction, several, withOptions } from '../actions.ts';
import { type Command, type CommandContext, CommandFailed, UsageError } from '../command.ts';
import { parseOptions } from '../options.ts';
import { createProgressView, formatBytes, formatDuration } from '../progress.ts';
import { mentionServerElsewhere } from '../store-for-reading.ts';
import { table } from '../table.ts';
import { ADD_OPTIONS, addToCatalog, removeFromCatalog } from './add.ts';
import { listModels } from './list.ts';
import { pullWeights, removeWeights, verifyWeights } from './weights.ts';

/** The versions that the arguments name. A slug means its recommended version. */
function choose(
  entries: readonly ModelEntry[],
  { names, starter = false, config }: { names: readonly string[]; starter?: boolean; config: ResolvedConfig },
): StoredModel[] {
  const stored = (entry: ModelEntry, version: ModelVersion | undefined): StoredModel[] =>
    version?.source === undefined ? [] : [{ slug: entry.slug, version: version.version, source: version.source }];
  const recommended = (entry: ModelEntry) => entry.versions.find(({ version }) => version === entry.recommended);
  if (starter) return entries.filter((entry) => entry.starter).flatMap((entry) => stored(entry, recommended(entry)));
  return names.flatMap((name) => {
    const reference = parseReference(name);
    const entry = entries.find(({ slug }) => slug === reference?.slug);
    if (reference === undefined || entry === undefined) {
      const meant = nearestSlug(
        name.split('@', 1)[0] as string,
        entries.map(({ slug }) => slug),
      );
      const hint = meant === undefined ? "'baobab models list' shows them" : `did you mean '${meant}'?`;
      throw new CommandFailed(`there is no model '${name}'; ${hint}\n${lookedInText(config)}`);
    }
    const version =
      reference.version === undefined
        ? recommended(entry)
        : entry.versions.find((each) => each.version === reference.version);
    if (version === undefined) throw new CommandFailed(`'${entry.slug}' has no version '${reference.version}'`);
    if (version.source === undefined)
      throw new CommandFailed(`'${name}' is served by upstreams only: there are no weights to fetch`);
    return stored(entry, version);
  });
}

/** Whether weights were fetched for it: files that are used in place are not ours to remove. */
const choosable = (entries: readonly ModelEntry[], slug: string): boolean =>
  entries.some((entry) => entry.slug === slug && entry.versions.some(({ source }) => source && source.kind !== 'file'));

/** Such as `cuda, 31 of 31 layers, 1.2 GB`. */
function describeDevice(device: ComputeDevice | null): string {
  if (device === null) return '-';
  const { backend, gpuLayers, layers, videoBytes } = device;
  return gpuLayers === 0 ? 'cpu' : `${backend}, ${gpuLayers} of ${layers} layers, ${formatBytes(videoBytes)}`;
}

async function showLoaded(context: CommandContext, asJson: boolean): Promise<void> {
  const { config, print } = context;
  const reports = await askEngines(config.dataDir);
  if (reports === undefined) {
    await mentionServerElsewhere(context);
    throw new CommandFailed(
      `no server is running on ${config.dataDir}; 'baobab serve' starts one, and --data-dir names another directory`,
    );
  }
  if (asJson) {
    const shown = reports.map(({ processIds: pids, loadedAt, ...report }) => ({
      ...report,
      pids,
      loadedAt: isoTimeOrNull(loadedAt),
    }));
    print(JSON.stringify(snakeKeys(shown)));
    return;
  }
  const rows = reports.map((report) => [
    report.model,
    report.status,
    report.processIds.join(','),
    report.memoryBytes === 0 ? '-' : formatBytes(report.memoryBytes),
    report.plannedBytes === 0 ? '-' : formatBytes(report.plannedBytes),
    report.contextBytes === 0 ? '-' : formatBytes(report.contextBytes),
    describeDevice(report.device),
    report.loadedAt === null ? '-' : formatDuration((Date.now() - report.loadedAt) / 1000),
    report.loadMs === null ? '-' : `${(report.loadMs / 1000).toFixed(1)} s`,
    String(report.inFlight),
    String(report.queueDepth),
    report.reason ?? '',
  ]);
  print(
    table(
      [
        ...['MODEL', 'STATUS', 'PIDS', 'MEMORY', 'AT MOST', 'OF IT CONTEXT', 'RUNS ON', 'LOADED FOR', 'LOAD TIME'],
        ...['RUNNING', 'WAITING', ''],
      ],
      rows,
    ),
  );
  const upstreams = reports.flatMap(({ model, upstreams }) =>
    upstreams.map(({ address, kind, region, healthy, breaker, inFlight, maxConcurrency, problem }) => [
      model,
      address,
      kind,
      region,
      healthy ? 'healthy' : 'down',
      breaker,
      `${inFlight} of ${maxConcurrency}`,
      problem ?? '',
    ]),
  );
  if (upstreams.length === 0) return;
  print(`\n${table(['MODEL', 'UPSTREAM', 'KIND', 'REGION', 'STATUS', 'BREAKER', 'RUNNING', ''], upstreams)}`);
}

export const modelsCommand: Command = {
  forms: [
    ['list [--all]', 'models that can be served here: weights, size, status'],
    ['ps', 'what the running server has loaded, and its upstreams'],
    ['pull <slug>[@version]… | --all-starter', 'fetch weights ahead of the first request'],
    ['add <source> [options]', 'add a model to the catalog and serve it, without a restart'],
    ['remove <slug>[@version]…', 'delete its weights, and its entry if it was added'],
    ['verify [<slug>[@version]…]', 'check weights against their checksums; without a slug, all that are here'],
    ['deprecate <slug>[@version] --on YYYY-MM-DD', 'announce its removal, at least 90 days ahead'],
    ['retire <slug>[@version]', 'stop serving it, on the announced day or later'],
  ],
  options: [
    [
      '<source>',
      'hf:owner/repo:file or its page on huggingface.co, ./my.gguf, ./onnx-folder, or http://host:8000/v1 of a running engine',
    ],
    ['--slug PROVIDER/NAME', 'add: its name here'],
    ['--modality KIND', 'add: chat, embedding, rerank or audio'],
    ['--context-length N', 'add: tokens of prompt and answer together'],
    ['--dimensions N', 'add: of embeddings'],
    ['--pooling KIND', 'add: mean, cls or last, of ONNX embedding models'],
    ['--name NAME', "add: the upstream's own name for the model"],
    ['--upstream-key-file FILE', 'add: a file with the key that the upstream requires'],
    ['--all', 'list: the whole catalog, with the reason why a model cannot be served'],
    ['--json', 'list, ps: print JSON'],
  ],
  async run(context) {
    const { args, config, print } = context;
    const { values, positionals } = parseOptions(args, {
      json: { type: 'boolean' },
      all: { type: 'boolean' },
      on: { type: 'string' },
      'all-starter': { type: 'boolean' },
      ...ADD_OPTIONS,
    });
    const starter = values['all-starter'] === true;
    const { action, following: names } = readAction(
      'models',
      {
        list: withOptions(nothing, 'all'),
        ps: withOptions(nothing),
        pull: withOptions(starter ? nothing : several('a model, or --all-starter'), 'all-starter'),
        add: withOptions(one('hf:owner/repo:file, a path or an address'), ...Object.keys(ADD_OPTIONS)),
        remove: withOptions(several('a model')),
        verify: withOptions(several('a model', 0)),
        deprecate: withOptions(one('a model'), 'on'),
        retire: withOptions(one('a model')),
      },
      { values, positionals },
    );
    const [first = ''] = names;
    if (action === 'ps') return showLoaded(context, values.json === true);
    if (action === 'add') {
      await addToCatalog(first, values, context);
      return;
    }

    if (action === 'deprecate' || action === 'retire') {
      if (action === 'deprecate' && values.on === undefined) {
        throw new UsageError("'models deprecate' needs --on YYYY-MM-DD");
      }
      await using administration = await openAdministration(config);
      const { catalog } = await administration.openCatalog();
      if (action === 'retire') {
        await catalog.retire(first, administration.by);
        print(`${first} is retired`);
        return;
      }
      const { entry, version } = await catalog.deprecate(first, values.on ?? '', administration.by);
      print(`${entry.slug}@${version.version} is to be removed on ${isoTimeOrNull(version.deprecatedAt)}`);
      return;
    }
    const { entries, catalog } = await openCatalogForReading(config);
    const store = openWeights(config, { logger: createLogger({ level: 'silent', format: 'json' }), env: context.env });
    await using _store = store;
    const stop = new AbortController();
    process.once('SIGINT', () => stop.abort(new CommandFailed('interrupted; the next pull resumes here')));
    const progress = createProgressView(process.stderr, systemClock);
    const common = { store, progress, clock: systemClock, print, warn: context.warn, signal: stop.signal };

    if (action === 'list') {
      await mentionServerElsewhere(context);
      await listModels({
        store,
        catalog,
        engines: await askEngines(config.dataDir),
        upstreamModels: allUpstreams(config).map(({ model }) => model),
        all: values.all === true,
        json: values.json === true,
        print,
        warn: context.warn,
      });
    } else if (action === 'pull') {
      const models = choose(entries, { names, starter, config });
      const failed = await pullWeights({ ...common, models });
      if (failed > 0) throw new CommandFailed(`${failed} of ${models.length} could not be fetched`);
    } else if (action === 'remove') {
      const added = await removeFromCatalog(names, context);
      const withWeights = names.filter((name) => !added.includes(name) || choosable(entries, name));
      const models = choose(entries, { names: withWeights, config });
      const failed = await removeWeights({ ...common, models });
      if (failed > 0) throw new CommandFailed(`${failed} of ${models.length} could not be removed`);
    } else {
      const all = entries.flatMap(({ slug, versions }) =>
        versions.filter(({ source }) => source !== undefined).map(({ version }) => `${slug}@${version}`),
      );
      const named = names.length > 0;
      const failed = await verifyWeights({
        ...common,
        named,
        models: choose(entries, { names: named ? names : all, config }),
      });
      if (failed > 0)
        throw new CommandFailed(`${failed} have missing or changed files; 'baobab models pull' fetches them again`);
    }
  },
};
