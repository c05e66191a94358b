import { readdirSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { forEachPrice } from '@baobab/core/domain/measures.ts';
import { MODALITIES, type Modality, TASKS_OF_MODALITY } from '@baobab/core/domain/model.ts';
import type { Driver, WeightFacts } from '@baobab/core/engine/driver.ts';

type Fields = Record<string, unknown>;

/** The version and the day of models that give neither. It must not change between starts. */
const UNKNOWN_DATE = '1970-01-01';
const DATE = /^\d{4}-\d{2}-\d{2}$/;
/** Where neither the file nor the weights give it. */
const CONTEXT_LENGTHS: Record<Modality, number> = { chat: 4096, embedding: 512, rerank: 512, audio: 448 };
/** Local and remote engines can do all of this; what a model cannot do is written in its file. */
const CHAT_CAPABILITIES = { tools: true, jsonMode: true, vision: false, structuredOutput: true };
const NO_CAPABILITIES = { tools: false, jsonMode: false, vision: false, structuredOutput: false };
const NOT_BILLED = forEachPrice(() => null);

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A missing or wrong one is reported later, and should not cause other problems. */
const modalityOf = ({ modality }: Fields): Modality => MODALITIES.find((each) => each === modality) ?? 'chat';

export interface CompletedFile {
  value: unknown;
  /** `engine` and `source` were given without `versions`. */
  hasOneVersion: boolean;
}

/** Fills in what a catalog file leaves out. Takes any value, because the checks come after it. */
export function withDefaults(value: unknown, drivers: readonly Driver[]): CompletedFile {
  if (!isFields(value)) return { value, hasOneVersion: false };
  const hasOneVersion = value.versions === undefined;
  const { engine, source, ...others } = value;
  const fields: Fields = hasOneVersion ? others : value;
  const given = hasOneVersion ? [{ version: versionFrom(value.created), engine, source }] : value.versions;
  const versions = Array.isArray(given)
    ? given.map((version) => completeVersion(version, modalityOf(value), drivers))
    : given;
  const [only, ...more]: unknown[] = Array.isArray(versions) ? versions : [];
  const facts = factsOf(only, drivers);
  const modality = modalityOf(value);
  const isChat = modality === 'chat';
  const completed = {
    ...fields,
    description: value.description ?? value.slug,
    languages: value.languages ?? [],
    license: value.license ?? 'unknown',
    created: value.created ?? (isFields(only) ? only.version : undefined),
    contextLength: value.contextLength ?? facts.contextLength ?? CONTEXT_LENGTHS[modality],
    maxOutputTokens: value.maxOutputTokens ?? null,
    dimensions: value.dimensions ?? (modality === 'embedding' ? (facts.dimensions ?? null) : null),
    capabilities: merged(
      isChat ? CHAT_CAPABILITIES : { ...NO_CAPABILITIES, vision: facts.images === true },
      value.capabilities,
    ),
    pricing: merged(NOT_BILLED, value.pricing),
    recommended: value.recommended ?? (isFields(only) && more.length === 0 ? only.version : undefined),
    versions,
  };
  return { value: withoutUndefined(completed), hasOneVersion };
}

/** A wrong date is reported once, where it was written. */
const versionFrom = (created: unknown): string =>
  typeof created === 'string' && DATE.test(created) ? created : UNKNOWN_DATE;

/** What the weights of a version say, where they are on this machine already. */
export function factsOf(version: unknown, drivers: readonly Driver[]): WeightFacts {
  if (!isFields(version) || !isFields(version.engine) || !isFields(version.source)) return {};
  const { driver: name, task, ...options } = version.engine;
  const directory = directoryOf(version.source);
  const runtime = drivers.find((driver) => driver.name === name)?.local;
  if (directory === undefined || typeof options.model !== 'string' || runtime?.facts === undefined) return {};
  // The drivers' own check comes later; `facts` uses no other option.
  return runtime.facts({ driver: String(name), task: task as never, options }, directory);
}

function completeVersion(version: unknown, modality: Modality, drivers: readonly Driver[]): unknown {
  if (!isFields(version)) return version;
  const { engine = {}, source } = version;
  if (!isFields(engine)) return version;
  const [task] = TASKS_OF_MODALITY[modality];
  const driver = driverOf(engine, source, drivers);
  return withoutUndefined({
    ...version,
    engine: withoutUndefined({ task, ...driver?.options, driver: driver?.name, ...engine }),
    source: withAllParts(source, drivers),
  });
}

/** A path to one part of a model means all parts, so that all are checked. */
function withAllParts(source: unknown, drivers: readonly Driver[]): unknown {
  if (!isFields(source) || source.files !== undefined) return source;
  const directory = directoryOf(source);
  if (directory === undefined || directory === source.path) return source;
  const files = ggufFiles(basename(String(source.path)), drivers);
  return files.length > 1 ? { ...source, path: directory, files: files.map((as) => ({ as })) } : source;
}

/** The files of the model that a GGUF file belongs to, the one to load first. */
export function ggufFiles(name: string, drivers: readonly Driver[]): readonly string[] {
  const runtime = drivers.find((driver) => driver.name === 'llama')?.local;
  const options = runtime?.recognise?.([name]) ?? { model: name };
  return runtime?.files({ driver: 'llama', task: 'chat', options }) ?? [name];
}

/** The driver that is named, or the first that recognises the files. Without weights only upstreams can run the model. */
function driverOf(
  { driver: named }: Fields,
  source: unknown,
  drivers: readonly Driver[],
): { name: string; options: Fields } | undefined {
  const candidates = drivers.filter(({ name, local, mustBeNamed }) =>
    named === undefined ? !mustBeNamed && (local === undefined) === (source === undefined) : name === named,
  );
  const names = fileNames(source);
  for (const { name, local } of candidates) {
    const options = local?.recognise?.(names);
    if (options !== undefined) return { name, options };
  }
  const [first] = candidates;
  return first && { name: first.name, options: {} };
}

/** Names of the files that a source is known to have. */
export function fileNames(source: unknown): string[] {
  if (!isFields(source)) return [];
  const listed = Array.isArray(source.files) ? source.files : [];
  const named = listed.flatMap((file: unknown) => (isFields(file) && typeof file.as === 'string' ? [file.as] : []));
  return [...named, ...namesAt(source)];
}

/** The name of a single file; or those in a directory and in the directories in it, with `/` between. */
function namesAt(source: Fields): string[] {
  const directory = directoryOf(source);
  // A wrong path is reported later; its extension still shows which driver is meant.
  if (directory === undefined) return String(source.path).endsWith('.gguf') ? [basename(String(source.path))] : [];
  if (directory !== source.path) return [basename(String(source.path))];
  return entriesOf(directory).flatMap(({ name, isDirectory }) =>
    isDirectory ? entriesOf(join(directory, name)).map((inner) => `${name}/${inner.name}`) : [name],
  );
}

/** A directory that cannot be read is reported when the model loads. */
function entriesOf(directory: string): { name: string; isDirectory: boolean }[] {
  try {
    const entries = readdirSync(directory, { withFileTypes: true });
    return entries.map((entry) => ({ name: entry.name, isDirectory: entry.isDirectory() }));
  } catch {
    return [];
  }
}

function directoryOf({ kind, path }: Fields): string | undefined {
  // Relative paths are for the models that ship with Baobab, whose files leave nothing out.
  if (kind !== 'file' || typeof path !== 'string' || !isAbsolute(path)) return undefined;
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return undefined;
  return found.isFile() ? dirname(path) : path;
}

const merged = (defaults: Fields, given: unknown): unknown =>
  given === undefined ? defaults : isFields(given) ? { ...defaults, ...given } : given;

const withoutUndefined = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
