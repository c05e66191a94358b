import { readFile } from 'node:fs/promises';
import type { AuditEntry, AuditedChange, ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import { initialFields } from '@baobab/core/domain/audit/field-changes.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Secret } from '@baobab/core/ports/secret.ts';
import { systemClock as clock } from '@baobab/core/runtime/clock.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { addedFolders, isAdded, removeAdded, writeDraft } from '../catalog/adding/catalog-folder.ts';
import type { AddOptions, ModelDraft } from '../catalog/adding/draft.ts';
import { draftHubModel } from '../catalog/adding/hub-model.ts';
import { draftLocalModel } from '../catalog/adding/local-model.ts';
import { AddError, parseLocation } from '../catalog/adding/reference.ts';
import { draftUpstreamModel } from '../catalog/adding/upstream-model.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { drivers } from '../drivers.ts';
import { createProxyFetch } from '../models/sources/proxy-fetch.ts';
import { auditEntry } from '../services/audit/entries.ts';
import type { AddedModelsService } from '../services/catalog/added-models.ts';
import { catalogEntries } from './storage.ts';
import type { Environment } from './weights.ts';

interface LookContext {
  config: ResolvedConfig;
  env: Environment;
  /** Where it may change. */
  hfToken?: Secret | undefined;
  signal?: AbortSignal | undefined;
}

export interface AddContext extends LookContext {
  /**
   * Writes the entry of the audit log. The catalog is made of files, which no transaction covers: the entry comes first, so that no
   * change is without one.
   */
  record(change: AuditedChange): Promise<void>;
}

const targetOf = (slug: string) => ({
  kind: 'model' as const,
  id: slug,
  name: slug,
  accountId: null,
  accountName: null,
});

/** An address is recorded without the name, password and query that may be in it. */
const added = (source: string, { entry: { slug, modality }, upstream }: ModelDraft): AuditedChange => ({
  action: 'model.added',
  target: targetOf(slug),
  changes: initialFields({ source: upstream?.url ?? source, modality, upstreamName: upstream?.name }),
});

/** Looks at the model, writes its catalog entry and, for an upstream, where it runs. Throws `AddError`. */
export async function addModel(source: string, options: AddOptions, context: AddContext): Promise<ModelDraft> {
  const { config } = context;
  const found = await inspect(source, options, context);
  const entries = await catalogEntries(config);
  const { entry, upstream, notes } = named(found, (slug) => entries.some((each) => each.slug === slug));
  const { slug, modality } = entry;
  // The day of the addition is its version, which distinguishes it from a later addition.
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
  const beforeChange = () => context.record(added(source, draft));
  await writeDraft(folders, draft, { known: known !== undefined, beforeChange });
  return draft;
}

/** The catalog has most well-known models; another file of one of them gets the longer name. */
function named(draft: ModelDraft, isTaken: (slug: string) => boolean): ModelDraft {
  const { entry, longSlug, notes = [] } = draft;
  if (longSlug === undefined || !isTaken(entry.slug) || isTaken(longSlug)) return draft;
  const note = `the catalog has another model ${entry.slug}, so this one is ${longSlug}`;
  return { ...draft, entry: { ...entry, slug: longSlug }, notes: [...notes, note] };
}

const readKey = (file: string): Promise<string> =>
  readFile(file, 'utf8').then(
    (text) => text.trim(),
    (error: unknown) => {
      throw new AddError(`the key of the upstream in ${file} cannot be read: ${systemReason(error)}`);
    },
  );

async function inspect(
  source: string,
  options: AddOptions,
  { config, env, hfToken, signal }: LookContext,
): Promise<ModelDraft> {
  const location = parseLocation(source, process.cwd());
  if (location.kind === 'path') return draftLocalModel(location.path, options, drivers);
  if (location.kind === 'upstream') {
    const apiKey = options.apiKeyFile === undefined ? undefined : await readKey(options.apiKeyFile);
    return draftUpstreamModel(location.url, options, { apiKey, signal });
  }
  const { fetch: send, close } = createProxyFetch(env);
  try {
    const { hfEndpoint: endpoint } = config.models;
    const token = hfToken?.reread() ?? config.models.hfToken;
    return await draftHubModel(location, options, { endpoint, token, fetch: send, signal, drivers });
  } finally {
    await close();
  }
}

/** Returns false for a model that was not added. */
export async function removeModel(
  slug: string,
  { config, record }: Pick<AddContext, 'config' | 'record'>,
): Promise<boolean> {
  const folders = addedFolders(config.dataDir);
  if (!isAdded(folders, slug)) return false;
  await record({ action: 'model.removed', target: targetOf(slug), changes: [] });
  return removeAdded(folders, slug);
}

export interface AddedModelsDependencies extends LookContext {
  audit: { append(entry: AuditEntry): Promise<void> };
  /** Makes the server read the catalog again. */
  reload(): Promise<void>;
}

/** For the admin API of a running server. */
export function createAddedModels({ audit, reload, ...context }: AddedModelsDependencies): AddedModelsService {
  const contextOf = (by: ChangeOrigin): AddContext => ({
    ...context,
    record: (change) => audit.append(auditEntry(by, change, clock.now())),
  });
  return {
    async add(source, options, by) {
      try {
        const { entry } = await addModel(source, options, contextOf(by));
        await reload();
        return entry.slug;
      } catch (error) {
        if (error instanceof AddError) throw errors.invalidParameter(['source'], `Cannot add it: ${error.message}.`);
        throw error;
      }
    },
    async remove(slug, by) {
      if (!(await removeModel(slug, contextOf(by)))) throw errors.modelNotFound(slug);
      await reload();
    },
  };
}
