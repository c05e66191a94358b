import { patientTimeout } from '@baobab/core/runtime/abort.ts';
import { WeightsError } from '../weights-error.ts';
import { networkFailure } from './network-failure.ts';
import {
  type ArchiveAccess,
  createArchiveReader,
  METADATA_TIMEOUT_MS,
  type PackageArchives,
  StatusError,
} from './package-archives.ts';
import { normalizedName, parseSimplePage, SIMPLE_ACCEPT, wheelOf } from './simple-page.ts';

const PACKAGE_NAME = /^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$/i;

const nameOf = (url: string): string => `the package index ${new URL(url).host}`;

/** A Python package index as pip uses it (PEP 503 and 691), for reading wheels in parts. */
export function createPythonIndex(settings: () => Promise<ArchiveAccess>): PackageArchives {
  const { request, sizeOf, openRange } = createArchiveReader(settings, nameOf);

  async function locateAt(indexUrl: string, packageName: string, version: string, signal: AbortSignal) {
    const page = `${indexUrl.replace(/\/$/, '')}/${normalizedName(packageName)}/`;
    const response = await request(page, { accept: SIMPLE_ACCEPT }, signal);
    const files = parseSimplePage(await response.text(), response.headers.get('content-type') ?? '', response.url);
    const wheel = wheelOf(files, packageName, version);
    if (wheel === undefined) throw new StatusError(404);
    return wheel.url;
  }

  return {
    nameOf,
    sizeOf,
    openRange,

    async locate(packageName, version, signal) {
      if (!PACKAGE_NAME.test(packageName)) throw new WeightsError('invalid', `'${packageName}' is not a package name`);
      const { baseUrls } = await settings();
      let failure: WeightsError | undefined;
      for (const indexUrl of baseUrls) {
        try {
          const deadline = AbortSignal.any([signal, patientTimeout(METADATA_TIMEOUT_MS)]);
          return await locateAt(indexUrl, packageName, version, deadline);
        } catch (error) {
          signal.throwIfAborted();
          failure ??= networkFailure(`wheel of ${packageName} ${version}`, nameOf(indexUrl), error);
        }
      }
      throw failure ?? new WeightsError('invalid', 'pip is configured without a package index');
    },
  };
}
