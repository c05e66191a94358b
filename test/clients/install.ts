import { existsSync } from 'node:fs';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from './client.ts';

/** Installs into a folder what a client needs, unless it is there. */
export type Installer = (installation: string) => Promise<void>;

const PROGRAMS = join(import.meta.dirname, 'programs');

export const npm =
  (...packages: string[]): Installer =>
  async (installation) => {
    const manifest = join(installation, 'package.json');
    if (!existsSync(manifest)) await writeFile(manifest, '{"private":true,"type":"module"}');
    const missing = packages.filter((name) => !existsSync(join(installation, 'node_modules', name)));
    if (missing.length > 0) await run('npm', ['install', '--no-audit', '--no-fund', ...missing], installation);
  };

/** A virtual environment `name`; `without` are dependencies that the test does not need. */
export const python =
  (name: string, requirement: string, without: readonly string[] = []): Installer =>
  async (installation) => {
    const venv = join(installation, name);
    const finished = join(venv, 'installed');
    if (existsSync(finished)) return;
    await run('python3', ['-m', 'venv', venv], installation);
    await run(join(venv, 'bin/pip'), ['install', '-q', 'uv'], installation);
    const overrides = join(venv, 'overrides.txt');
    await writeFile(overrides, without.map((each) => `${each}; sys_platform == "never"\n`).join(''));
    const target = ['-q', '-p', join(venv, 'bin/python'), '--overrides', overrides];
    await run(join(venv, 'bin/uv'), ['pip', 'install', ...target, requirement], installation);
    await writeFile(finished, '');
  };

/** Builds the project `programs/<name>` with the commands, which make the file `built`. */
const project =
  (name: string, built: string, commands: readonly string[][], env: (installation: string) => Record<string, string>) =>
  async (installation: string): Promise<void> => {
    const folder = join(installation, name);
    await mkdir(folder, { recursive: true });
    await cp(join(PROGRAMS, name), folder, { recursive: true });
    for (const [file = '', ...args] of existsSync(join(folder, built)) ? [] : commands)
      await run(file, args, folder, env(installation));
  };

export const go: Installer = project(
  'go',
  'client',
  [
    ['go', 'get', 'github.com/openai/openai-go/v3@latest'],
    ['go', 'mod', 'tidy'],
    ['go', 'build', '-o', 'client', '.'],
  ],
  () => ({}),
);

export const rust: Installer = project('rust', 'target/debug/baobab-client', [['cargo', 'build']], (installation) => ({
  CARGO_HOME: join(installation, 'cargo'),
}));

export const java: Installer = project(
  'java',
  'classpath.txt',
  [['mvn', '-q', '-B', 'package', 'dependency:build-classpath', '-Dmdep.outputFile=classpath.txt']],
  (installation) => ({ MAVEN_OPTS: `-Dmaven.repo.local=${join(installation, 'maven')}` }),
);
