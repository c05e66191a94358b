import { realpath } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Options as npm-registry-fetch takes them: registries, credentials, proxies, certificates. */
export type NpmSettings = Readonly<Record<string, unknown>>;

/**
 * The npm of the machine, not the one beside our own runtime: npm looks for its global settings relative to the node it was
 * installed with.
 */
async function findNpm(environment: Environment): Promise<{ npmPath: string; execPath: string }> {
  for (const directory of (environment.PATH ?? '').split(delimiter)) {
    const npmCli = directory === '' ? null : await realpath(join(directory, 'npm')).catch(() => null);
    if (npmCli !== null) return { npmPath: dirname(dirname(npmCli)), execPath: join(directory, 'node') };
  }
  return { npmPath: dirname(process.execPath), execPath: process.execPath };
}

/** Reads .npmrc files (project, user, global) and npm_config_* the way npm itself does. */
export async function loadNpmSettings(environment: Environment, workingDirectory: string): Promise<NpmSettings> {
  const [{ default: Config }, { default: definitions }] = await Promise.all([
    import('@npmcli/config'),
    import('@npmcli/config/lib/definitions/index.js'),
  ]);
  const config = new Config({
    ...definitions,
    ...(await findNpm(environment)),
    // A copy: loading writes into it.
    env: { ...environment },
    argv: ['node', 'npm'],
    cwd: workingDirectory,
    warn: false,
  });
  await config.load();
  return config.flat;
}
