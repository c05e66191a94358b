/** A program that installs without a network: packages, models and Node in one file. */
import { createWriteStream } from 'node:fs';
import { chmod, cp, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { tarOf } from './archive.ts';
import type { Cpu } from './debian.ts';
import { INSTALLED_BOUNDS, install } from './installation.ts';
import { copyCommonFiles, product, stage } from './packages.ts';

export interface BundleOptions {
  cpu: Cpu;
  out: string;
  commit: string;
  /** Names of folders in models/, or undefined for a gateway without engines. */
  models: readonly string[] | undefined;
}

/** Returns the name of the file. */
export async function writeBundle({ cpu, out, commit, models }: BundleOptions): Promise<string> {
  const name = ['baobab', product.version, ...(models === undefined ? ['gateway'] : [])].join('-');
  const work = join(out, '.stage/bundle');
  const folder = join(work, name);
  await mkdir(folder, { recursive: true });
  await copyCommonFiles(folder);
  await cp(join(import.meta.dirname, 'install.sh'), join(folder, 'install.sh'));
  await chmod(join(folder, 'install.sh'), 0o755);
  const modules = join(folder, 'node_modules');
  const options = { cpu, withEngines: models !== undefined, commit };
  const bytes = await install({ folder: modules, runtime: join(folder, 'node') }, options, join(out, '.stage/npm'));
  const bound = INSTALLED_BOUNDS[models === undefined ? 'gateway' : 'full'];
  if (bytes > bound) throw new Error(`${name} takes ${bytes} bytes on a disk, more than ${bound}`);
  for (const model of models ?? []) await stage(model, join(modules, '@baobab', model), commit);
  const file = `${name}-offline-linux-${cpu}.tar.gz`;
  await pipeline(tarOf(work), createGzip(), createWriteStream(join(out, file)));
  await rm(work, { recursive: true });
  return file;
}
