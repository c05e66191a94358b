import { existsSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { noticeProblem } from '@baobab/core/domain/deprecation.ts';
import {
  type EngineSpec,
  type EngineTask,
  type Modality,
  type ModelEntry,
  type ModelVersion,
  TASKS_OF_MODALITY,
} from '@baobab/core/domain/model.ts';
import { providerOf } from '@baobab/core/domain/slug.ts';
import { isCalendarDate } from '@baobab/core/domain/time/dates.ts';
import type { Driver, LocalRuntime } from '@baobab/core/engine/driver.ts';
import { Type } from 'typebox';
import { Value } from 'typebox/value';
import { drivers as allDrivers } from '../drivers.ts';
import { inOrderOfLines, readYaml, yamlFiles } from '../validation/document.ts';
import { snake } from '../validation/names.ts';
import { problemsOf } from '../validation/problems.ts';
import { BUILT_IN_CATALOG, builtInWeights } from './built-in.ts';
import { factsOf, withDefaults } from './defaults.ts';
import { openParsedCatalog } from './parsed.ts';
import { CatalogFile, type Report } from './schema.ts';
import { checkSource, toSource } from './source.ts';

export class CatalogError extends Error {
  override readonly name = 'CatalogError';
}

const midnight = (date: string): number => Date.parse(`${date}T00:00:00.000Z`);

/** Also for files that have other problems. */
function engineProblemsOf(model: unknown, checks: EngineChecks): string[] {
  const { versions } = (model ?? {}) as { versions?: unknown };
  if (!Array.isArray(versions)) return [];
  return versions.flatMap((version: unknown, index) => {
    const { engine } = (version ?? {}) as { engine?: unknown };
    if (typeof engine !== 'object' || engine === null) return [];
    return engineProblems(engine, ['versions', String(index), 'engine'], checks);
  });
}

function toEntry(model: CatalogFile): ModelEntry {
  const versions = model.versions.map(
    (version): ModelVersion => ({
      version: version.version,
      engine: toEngineSpec(version.engine),
      source: toSource(version.source),
      deprecatedAt: version.deprecatedAt === undefined ? null : midnight(version.deprecatedAt),
      retiredAt: version.retiredAt === undefined ? null : midnight(version.retiredAt),
    }),
  );
  return {
    ...model,
    provider: providerOf(model.slug),
    created: midnight(model.created) / 1000,
    versions,
  };
}

/** Reads every `*.yaml` below the directories, and yields after each. Throws one error that lists every problem with file and line. */
export function* readCatalog(directories: readonly string[], drivers = allDrivers): Generator<void, ModelEntry[]> {
  const problems: string[] = [];
  const entries = new Map<string, ModelEntry>();
  for (const directory of directories) {
    if (!existsSync(directory)) {
      problems.push(`${directory}: there is no such catalog directory`);
      continue;
    }
    const seen = new Map<string, string>();
    const builtIn = resolve(directory) === BUILT_IN_CATALOG;
    const parsed = builtIn ? openParsedCatalog() : undefined;
    for (const name of yamlFiles(directory)) {
      yield;
      const file = join(directory, name);
      const document = readYaml(file, parsed);
      const { value, hasOneVersion } = withDefaults(document.value, drivers);
      let model = Value.Default(CatalogFile, value);
      // Without a list of versions, the fields of the only one are beside the others.
      const inFile = (path: readonly string[]) =>
        hasOneVersion && path[0] === 'versions' && path[1] === '0' ? path.slice(2) : path;
      const locate = (path: readonly string[]) => document.locate(inFile(path));
      const found = [...document.problems];
      if (found.length === 0) {
        found.push(...problemsOf(CatalogFile, model, locate));
        found.push(...engineProblemsOf(model, { drivers, locate }));
      }
      if (found.length === 0) {
        if (builtIn) model = withPlacesOfWeights(model as CatalogFile);
        checkRules(model as CatalogFile, { drivers, builtIn }, (path, text) => {
          const names = path.map(String);
          found.push(`${locate(names)}: ${names.map(snake).join('.')}: ${text}`);
        });
      }
      const shown = hasOneVersion ? found.map((problem) => problem.replace(': versions.0.', ': ')) : found;
      problems.push(...inOrderOfLines(file, shown));
      if (found.length > 0) continue;
      const entry = toEntry(model as CatalogFile);
      // A later directory may replace a built-in model; within one directory a slug is described once.
      const other = seen.get(entry.slug);
      if (other !== undefined)
        problems.push(`${document.locate(['slug'])}: slug: ${entry.slug} is described in ${other} already`);
      seen.set(entry.slug, name);
      entries.set(entry.slug, entry);
    }
    parsed?.save();
  }
  if (problems.length > 0) throw new CatalogError(problems.join('\n'));
  return [...entries.values()].sort((left, right) => (left.slug < right.slug ? -1 : 1));
}

/** The same at once, for commands: a large catalog takes seconds. */
export function loadCatalog(directories: readonly string[], drivers = allDrivers): ModelEntry[] {
  const reading = readCatalog(directories, drivers);
  for (;;) {
    const step = reading.next();
    if (step.done) return step.value;
  }
}

type Version = CatalogFile['versions'][number];

function withPlacesOfWeights(model: CatalogFile): CatalogFile {
  const versions = model.versions.map((version): Version => {
    const { source } = version;
    if (source?.kind !== 'file') return version;
    return { ...version, source: { ...source, ...builtInWeights(source.path ?? '') } };
  });
  return { ...model, versions };
}

interface RuleOptions {
  drivers: readonly Driver[];
  /** Whether the file ships with Baobab. */
  builtIn: boolean;
}

/** What a schema cannot say. The file has passed the schemas of the catalog and of its drivers. */
function checkRules(model: CatalogFile, options: RuleOptions, report: Report): void {
  const embedding = model.modality === 'embedding';
  if (embedding && model.dimensions === null) report(['dimensions'], 'is required for embedding models');
  if (!embedding && model.dimensions !== null) report(['dimensions'], 'only embedding models have dimensions');
  for (const field of ['engine', 'source'] as const) {
    if (model[field] !== undefined) report([field], 'belongs into a version when versions are given');
  }
  if (model.truncation && !embedding) report(['truncation'], 'only embedding models can be truncated');
  if (model.truncateInputs !== undefined && !embedding && model.modality !== 'rerank') {
    report(['truncateInputs'], 'only inputs of embedding models and rerankers can be cut');
  }
  const names = model.versions.map(({ version }) => version);
  if (!names.includes(model.recommended)) {
    report(['recommended'], `names no version of this model; there are: ${names.join(', ')}`);
  }
  model.versions.forEach((version, index) => {
    const reportVersion: Report = (path, text) => report(['versions', index, ...path], text);
    if (names.indexOf(version.version) < index) reportVersion(['version'], `${version.version} is listed twice`);
    checkDates(version, reportVersion);
    const wrongTask = taskProblem(version.engine.task, model.modality);
    if (wrongTask !== undefined) reportVersion(['engine', 'task'], wrongTask);
    checkWeights(version, options, reportVersion);
    const { contextLength } = factsOf(version, options.drivers);
    if (contextLength !== undefined && contextLength < model.contextLength) {
      report(['contextLength'], `is ${model.contextLength}, but the weights were made for at most ${contextLength}`);
    }
  });
}

function checkDates(version: Version, report: Report): void {
  for (const field of ['version', 'deprecatedAt', 'noticeAt', 'retiredAt'] as const) {
    const date = version[field];
    if (date !== undefined && !isCalendarDate(date)) report([field], `${date} is not a day of the calendar`);
  }
  const removal = version.retiredAt ?? version.deprecatedAt;
  if (removal !== undefined) {
    const problem =
      version.noticeAt === undefined
        ? 'a removal date needs notice_at, the day it was announced'
        : noticeProblem(removal, Date.parse(version.noticeAt));
    if (problem !== undefined) report([version.retiredAt === undefined ? 'deprecatedAt' : 'retiredAt'], problem);
  }
  if (version.retiredAt !== undefined && version.retiredAt < (version.deprecatedAt ?? '')) {
    report(['retiredAt'], 'is before deprecated_at, the announced removal date');
  }
}

function checkWeights(version: Version, { drivers, builtIn }: RuleOptions, report: Report): void {
  const { source } = version;
  const driver = drivers.find(({ name }) => name === version.engine.driver);
  if (driver?.isAbsent) return;
  const runtime = driver?.local;
  if (source === undefined) {
    if (runtime !== undefined) report(['source'], 'is required for models that run here');
    return;
  }
  if (runtime === undefined) {
    report(['source'], 'is not for models that only upstreams run');
    return;
  }
  let found = false;
  checkSource(source, (path, text) => {
    found = true;
    report(['source', ...path], text);
  });
  // The weights of a retired version may be gone.
  if (found || version.retiredAt !== undefined) return;
  checkWeightsFiles({ engine: toEngineSpec(version.engine), runtime, source, builtIn }, report);
}

type Source = NonNullable<CatalogFile['versions'][number]['source']>;

interface WeightsFilesOptions {
  engine: EngineSpec;
  runtime: LocalRuntime;
  source: Source;
  /** Whether the file ships with Baobab, perhaps without its weights. */
  builtIn: boolean;
}

/** Reports files that the engine needs and the source does not have. Paths are those of a version. */
function checkWeightsFiles(options: WeightsFilesOptions, report: Report): void {
  const { engine, runtime, source } = options;
  const missing = (file: string, text: string) => {
    const option = Object.entries(engine.options).find(([, value]) => value === file)?.[0];
    if (option === undefined) report(['source'], `${text}; the task ${engine.task} needs it`);
    else report(['engine', option], text);
  };
  const needed = runtime.files(engine);
  if (source.kind === 'file') {
    if (options.builtIn && !existsSync(source.path ?? '')) return;
    const directory = localDirectory(source.path ?? '', (text) => report(['source', 'path'], text));
    if (directory === undefined) return;
    for (const file of needed) {
      const exists = statSync(join(directory, file), { throwIfNoEntry: false })?.isFile() === true;
      if (!exists) missing(file, `there is no file '${file}' in ${directory}`);
    }
    return;
  }
  const names = source.files?.map(({ as }) => as) ?? [];
  for (const file of needed) {
    if (!names.includes(file)) missing(file, `the source has no file '${file}'; it has ${names.join(', ')}`);
  }
}

/** Undefined when there is a problem. A single file counts as its directory. */
function localDirectory(path: string, report: (text: string) => void): string | undefined {
  if (!isAbsolute(path)) {
    report(`must be an absolute path${path.startsWith('~') ? "; '~' is not expanded" : ''}`);
    return undefined;
  }
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) report(`there is no file or directory ${path}`);
  return found?.isFile() === true ? dirname(path) : found && path;
}

const quoted = (names: readonly string[]) => names.map((name) => JSON.stringify(name)).join(', ');

interface EngineChecks {
  drivers: readonly Driver[];
  locate(path: readonly string[]): string;
}

/** Checks `engine` of a version with the schema of its own driver. `at` is its path in the file. */
function engineProblems(engine: object, at: readonly string[], { drivers, locate }: EngineChecks): string[] {
  const { driver: name, task } = engine as { driver?: unknown; task?: unknown };
  const problem = (field: string, text: string) => [`${locate([...at, field])}: ${[...at, field].join('.')}: ${text}`];
  const driver = drivers.find((each) => each.name === name);
  if (driver === undefined) return problem('driver', `must be one of ${quoted(drivers.map((each) => each.name))}`);
  if (driver.isAbsent) return [];
  const fields = Object.entries(driver.tasks).find(([each]) => each === task)?.[1];
  if (fields === undefined) {
    const tasks = quoted(Object.keys(driver.tasks));
    return problem('task', `the driver ${driver.name} has no such task; it has ${tasks}`);
  }
  const schema = Type.Object(
    { driver: Type.String(), task: Type.String(), ...fields },
    { additionalProperties: false },
  );
  return problemsOf(schema, engine, locate, at);
}

function taskProblem(task: string, modality: Modality): string | undefined {
  const tasks: readonly string[] = TASKS_OF_MODALITY[modality];
  return tasks.includes(task) ? undefined : `a model of the modality ${modality} needs the task ${tasks.join(' or ')}`;
}

/** After `engineProblems` found none. */
function toEngineSpec({ driver, task, ...options }: { driver: string; task: string }): EngineSpec {
  return { driver, task: task as EngineTask, options };
}
