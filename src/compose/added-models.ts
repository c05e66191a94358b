import { readFile } from 'node:fs/promises';
import { addedFolders, isAdded, removeAdded, writeDraft } from '../catalog/adding/catalog-folder.ts';
import type { AddOptions, ModelDraft } from '../catalog/adding/draft.ts';
import { draftHubModel } from '../catalog/adding/hub-model.ts';
import { draftLocalModel } from '../catalog/adding/local-model.ts';
import { AddError, parseLocation } from '../catalog/adding/reference.ts';
import { draftUpstreamModel } from '../catalog/adding/upstream-model.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { drivers } from '../engines/drivers.ts';
import { errors } from '../errors/errors.ts';
import { createProxyFetch } from '../models/sources/proxy-fetch.ts';
import { systemClock as clock } from '../runtime/clock.ts';
import type { AddedModelsService } from '../services/added-models.ts';
import { catalogEntries } from './storage.ts';
import type { Environment } from './weights.ts';

export interface AddContext {
  config: ResolvedConfig;
  env: Environment;
  signal?: AbortSignal | undefined;
}

/** Looks at the model, writes its catalog entry and, for an upstream, where it runs. Throws `AddError`. */
export async function addModel(source: string, options: AddOptions, context: AddContext): Promise<ModelDraft> {
  const { config } = context;
  const found = await inspect(source, options, context);
  const entries = catalogEntries(config);
  const { entry, upstream, notes } = named(found, (slug) => entries.some((each) => each.slug === slug));
  const { slug, modality } = entry;
  // The day of the addition is its version, so that a later addition can be told from it.
  const draft = { entry: { ...entry, created: new Date(clock.now()).toISOString().slice(0, 10) }, upstream, notes };
  const folders = addedFolders(config.dataDir);
  if (isAdded(folders, slug)) {
    throw new AddError(
      `${slug} was added already; 'baobab models remove ${slug}' removes it, and --slug gives another name`,
    );
  }
  const known = entries.find((each) => each.slug === slug);
  if (known !== undefined && (draft.upstream === undefined || known.modality !== modality)) {
    throw new AddError(`the catalog has a model ${slug} already; add --slug with another name such as local/model`);
  }
  await writeDraft(folders, draft, known !== undefined);
  return draft;
}

/** The catalog has most well-known models; another file of one of them gets the longer name. */
function named(draft: ModelDraft, isTaken: (slug: string) => boolean): ModelDraft {
  const { entry, longSlug, notes = [] } = draft;
  if (longSlug === undefined || !isTaken(entry.slug) || isTaken(longSlug)) return draft;
  const note = `the catalog has another model ${entry.slug}, so this one is ${longSlug}`;
  return { ...draft, entry: { ...entry, slug: longSlug }, notes: [...notes, note] };
}

async function inspect(source: string, options: AddOptions, { config, env, signal }: AddContext): Promise<ModelDraft> {
  const location = parseLocation(source, process.cwd());
  if (location.kind === 'path') return draftLocalModel(location.path, options, drivers);
  if (location.kind === 'upstream') {
    const apiKey = options.apiKeyFile === undefined ? undefined : (await readFile(options.apiKeyFile, 'utf8')).trim();
    return draftUpstreamModel(location.url, options, { fetch, apiKey, signal });
  }
  const { fetch: send, close } = createProxyFetch(env);
  try {
    const { hfEndpoint: endpoint, hfToken: token } = config.models;
    return await draftHubModel(location, options, { endpoint, token, fetch: send, signal, drivers });
  } finally {
    await close();
  }
}

/** Returns false for a model that was not added. */
export const removeModel = (slug: string, { dataDir }: ResolvedConfig): Promise<boolean> =>
  removeAdded(addedFolders(dataDir), slug);

/** For the admin API of a running server. */
export function createAddedModels(context: AddContext, reload: () => Promise<void>): AddedModelsService {
  return {
    async add(source, options) {
      try {
        const { entry } = await addModel(source, options, context);
        await reload();
        return entry.slug;
      } catch (error) {
        if (error instanceof AddError) throw errors.invalidParameter(['source'], `Cannot add it: ${error.message}.`);
        throw error;
      }
    },
    async remove(slug) {
      if (!(await removeModel(slug, context.config))) throw errors.modelNotFound(slug);
      await reload();
    },
  };
}
