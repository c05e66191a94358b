import { statSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { noticeProblem } from '@baobab/core/domain/deprecation.ts';
import type { EngineSpec } from '@baobab/core/domain/model.ts';
import { isCalendarDate } from '@baobab/core/domain/time/dates.ts';
import type { Driver, LocalRuntime } from '@baobab/core/engine/driver.ts';
import { INSTALLATION } from './built-in.ts';
import { factsOf } from './defaults.ts';
import { taskProblem, toEngineSpec } from './engine-spec.ts';
import type { CatalogFile, Report } from './schema.ts';
import { checkSource } from './source.ts';

type Version = CatalogFile['versions'][number];
interface RuleOptions {
  drivers: readonly Driver[];
  /** Whether the file ships with Baobab. */
  builtIn: boolean;
}

/** What a schema cannot say. The file has passed the schemas of the catalog and of its drivers. */
export function checkRules(model: CatalogFile, options: RuleOptions, report: Report): void {
  const embedding = model.modality === 'embedding';
  if (embedding && model.dimensions === null) report(['dimensions'], 'is required for embedding models');
  if (!embedding && model.dimensions !== null) report(['dimensions'], 'only embedding models have dimensions');
  for (const field of ['engine', 'source'] as const) {
    if (model[field] !== undefined) report([field], 'belongs into a version when versions are given');
  }
  if (model.truncation && !embedding) report(['truncation'], 'only embedding models can be truncated');
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
  /** Files of the built-in catalog may name weights by a path inside the installation. */
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
    const directory = localDirectory(source.path ?? '', options.builtIn, (text) => report(['source', 'path'], text));
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
function localDirectory(path: string, builtIn: boolean, report: (text: string) => void): string | undefined {
  if (!isAbsolute(path) && !builtIn) {
    report(`must be an absolute path${path.startsWith('~') ? "; '~' is not expanded" : ''}`);
    return undefined;
  }
  const place = isAbsolute(path) ? path : join(INSTALLATION, path);
  const found = statSync(place, { throwIfNoEntry: false });
  if (found === undefined) report(`there is no file or directory ${place}`);
  return found?.isFile() === true ? dirname(place) : found && place;
}
