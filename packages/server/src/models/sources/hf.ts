import { createHash } from 'node:crypto';
import { rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { HubSourceSpec } from '@baobab/core/domain/model.ts';
import type { Secret } from '@baobab/core/ports/secret.ts';
import { patientTimeout } from '@baobab/core/runtime/abort.ts';
import { openForWriting } from '../file-content.ts';
import { WeightsError } from '../weights-error.ts';
import { networkFailure } from './network-failure.ts';
import { resumableDownload } from './resumable-download.ts';
import { type ExpectedFile, type FetchContext, MAX_FILE_BYTES, type RemoteSource } from './source.ts';

export interface HubAccess {
  endpoint: string;
  token: Secret | undefined;
  fetch: typeof fetch;
}

const METADATA_TIMEOUT_MS = 8_000;
/** How the library asks for size and etag; a hub may answer with a description instead of that byte. */
const METADATA_RANGE = 'bytes=0-0';

/** Files of a repository on a Hugging Face hub or a mirror of it. */
export function createHubSource(spec: HubSourceSpec, hub: HubAccess): RemoteSource {
  const from = `the model hub ${new URL(hub.endpoint).host}`;
  const repository = `${spec.repo}@${spec.revision}`;

  /** Every request of the hub library goes through here, so that each one can be ended. */
  const fetchWith =
    (signal: AbortSignal): typeof fetch =>
    async (input, init) => {
      const response = await hub.fetch(input, { ...init, signal });
      const range = new Headers(init?.headers).get('range') ?? METADATA_RANGE;
      // The library takes any success for the range that it asked for.
      if (range !== METADATA_RANGE && response.status !== 206 && response.ok) {
        await response.body?.cancel();
        throw new WeightsError('refused', `Parts of files are not served by ${from}`);
      }
      return response;
    };

  const accessWith = (signal: AbortSignal, token = hub.token?.reread()) => ({
    repo: { type: 'model' as const, name: spec.repo },
    revision: spec.revision,
    hubUrl: hub.endpoint.replace(/\/$/, ''),
    fetch: fetchWith(signal),
    ...(token === undefined ? {} : { accessToken: token }),
  });

  async function describe(signal: AbortSignal): Promise<readonly ExpectedFile[]> {
    const { pathsInfo } = await import('@huggingface/hub');
    const deadline = AbortSignal.any([signal, patientTimeout(METADATA_TIMEOUT_MS)]);
    try {
      const infos = await pathsInfo({ ...accessWith(deadline), paths: spec.files.map((file) => file.path) });
      return spec.files.map((file) => {
        const info = infos.find(({ path, type }) => path === file.path && type === 'file');
        if (info === undefined)
          throw new WeightsError('refused', `There is no file ${file.path} in ${repository} at ${from}`);
        const oid = info.lfs?.oid ?? info.oid ?? '';
        return {
          as: file.as,
          bytes: file.bytes ?? info.size,
          sha256: file.sha256 ?? info.lfs?.oid ?? null,
          gitOid: info.lfs === undefined ? (info.oid ?? null) : null,
          pieces: [
            createHash('sha256')
              .update(JSON.stringify([spec.repo, file.path, oid]))
              .digest('hex')
              .slice(0, 32),
          ],
        };
      });
    } catch (error) {
      signal.throwIfAborted();
      throw networkFailure(repository, from, error);
    }
  }

  async function fetchFile(file: ExpectedFile, path: string, context: FetchContext): Promise<void> {
    const { downloadFile } = await import('@huggingface/hub');
    const [name] = file.pieces;
    if (name === undefined) return;
    const maxBytes = file.bytes ?? MAX_FILE_BYTES;
    const finished = join(context.piecesDirectory, name);
    const partial = `${finished}.partial`;
    let received = await stat(partial).then(
      ({ size }) => size,
      () => 0,
    );
    if (received > maxBytes) {
      await rm(partial);
      received = 0;
    }
    if (received > 0) context.onBytes(file.as, received);
    const body = resumableDownload({
      startOffset: received,
      signal: context.signal,
      open: async (offset, signal) => {
        // Plain HTTP instead of the chunk store: it can start anywhere, and nothing is unpacked on this thread.
        const blob = await downloadFile({ ...accessWith(signal), path, xet: false });
        if (blob === null) throw new WeightsError('refused', `There is no file ${path} in ${repository} at ${from}`);
        if (offset >= blob.size) return Readable.from([]);
        return blob.slice(offset, blob.size).stream();
      },
    });
    const target = await openForWriting(partial, 'append');
    try {
      for await (const chunk of body) {
        received += chunk.byteLength;
        if (received > maxBytes) {
          throw new WeightsError('mismatch', `${path} in ${repository} is larger than the expected ${maxBytes} bytes`);
        }
        await target.write(chunk);
        context.onBytes(file.as, chunk.byteLength);
      }
    } catch (error) {
      await target.abandon();
      context.signal.throwIfAborted();
      throw networkFailure(`${path} of ${repository}`, from, error);
    }
    await target.finish();
    await rename(partial, finished);
  }

  return {
    probeKey: `${spec.repo}@${spec.revision}`,
    describe,
    async fetch(files, context) {
      for (const file of files) {
        const path = spec.files.find(({ as }) => as === file.as)?.path;
        if (path !== undefined) await fetchFile(file, path, context);
      }
    },
    probe: async (signal) => {
      await describe(signal);
    },
  };
}
