import { statSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import type { EngineSpec } from '@baobab/core/domain/model.ts';
import type { LocalRuntime } from '@baobab/core/engine/driver.ts';
import { INSTALLATION } from './built-in.ts';
import type { CatalogFile, Report } from './schema.ts';

type Source = NonNullable<CatalogFile['versions'][number]['source']>;

export interface WeightsFilesOptions {
  engine: EngineSpec;
  runtime: LocalRuntime;
  source: Source;
  /** Files of the built-in catalog may name weights by a path inside the installation. */
  builtIn: boolean;
}

/** Reports files that the engine needs and the source does not have. Paths are those of a version. */
export function checkWeightsFiles(options: WeightsFilesOptions, report: Report): void {
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
