import { createHash } from 'node:crypto';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { PackagePiece, PackageSourceSpec } from '@baobab/core/domain/model.ts';
import { Parser, type ReadEntry } from 'tar';
import { openForWriting } from '../file-content.ts';
import { WeightsError } from '../weights-error.ts';
import { networkFailure } from './network-failure.ts';
import type { NpmRegistry } from './npm-registry.ts';
import { resumableDownload } from './resumable-download.ts';
import { type ExpectedFile, type FetchContext, MAX_FILE_BYTES, type RemoteSource } from './source.ts';

interface WantedPiece {
  name: string;
  /** The file it is a part of. */
  as: string;
  maxBytes: number;
}

const GUNZIP_CHUNK_BYTES = 256 * 1024;

const pieceName = (piece: PackagePiece): string =>
  createHash('sha256')
    .update(JSON.stringify([piece.package, piece.version, piece.path]))
    .digest('hex')
    .slice(0, 32);

/** Files inside npm packages. Only the named paths are read out of the tarballs; nothing is installed or run. */
export function createNpmSource(spec: PackageSourceSpec, registry: NpmRegistry): RemoteSource {
  const packages = new Map(
    spec.files.flatMap((file) => file.from).map((piece) => [`${piece.package}@${piece.version}`, piece]),
  );

  function wantedFrom(origin: PackagePiece, files: readonly ExpectedFile[]): Map<string, WantedPiece> {
    const wanted = new Map<string, WantedPiece>();
    for (const { as, bytes, pieces } of files) {
      for (const piece of spec.files.find((file) => file.as === as)?.from ?? []) {
        const name = pieceName(piece);
        const here = piece.package === origin.package && piece.version === origin.version && pieces.includes(name);
        if (here) wanted.set(piece.path, { name, as, maxBytes: bytes ?? MAX_FILE_BYTES });
      }
    }
    return wanted;
  }

  async function fetchPackage(origin: PackagePiece, wanted: Map<string, WantedPiece>, context: FetchContext) {
    const what = `${origin.package}@${origin.version}`;
    const url = await registry.locate(origin.package, origin.version, context.signal);
    const tarball = resumableDownload({
      open: (offset, signal) => registry.openTarball(url, origin.package, offset, signal),
      signal: context.signal,
    });
    const archive = Readable.from(tarball, { objectMode: false });
    const unzipped = createGunzip({ chunkSize: GUNZIP_CHUNK_BYTES });
    archive.on('error', (error) => unzipped.destroy(error));
    try {
      await extract(archive.pipe(unzipped), wanted, what, context);
    } catch (error) {
      context.signal.throwIfAborted();
      throw networkFailure(what, await registry.nameFor(origin.package), error);
    } finally {
      archive.destroy();
      unzipped.destroy();
    }
  }

  return {
    probeKey: [...packages.keys()].join(' '),

    async describe() {
      return spec.files.map(({ as, sha256, bytes, from }) => ({
        as,
        sha256,
        bytes: bytes ?? null,
        gitOid: null,
        pieces: from.map(pieceName),
      }));
    },

    async fetch(files, context) {
      for (const origin of packages.values()) {
        const wanted = wantedFrom(origin, files);
        if (wanted.size > 0) await fetchPackage(origin, wanted, context);
      }
    },

    async probe(signal) {
      await Promise.all([...packages.values()].map((piece) => registry.locate(piece.package, piece.version, signal)));
    },
  };
}

async function extract(
  archive: AsyncIterable<Uint8Array>,
  wanted: ReadonlyMap<string, WantedPiece>,
  what: string,
  context: FetchContext,
): Promise<void> {
  const missing = new Set(wanted.keys());
  let current: { file: Awaited<ReturnType<typeof openForWriting>>; path: string } | null = null;
  try {
    for await (const event of tarEntries(archive, missing)) {
      const piece = wanted.get(event.path);
      if (piece === undefined) continue;
      if (event.type === 'start') {
        if (event.bytes > piece.maxBytes) {
          throw new WeightsError(
            'mismatch',
            `${event.path} in ${what} has ${event.bytes} bytes; at most ${piece.maxBytes} were expected`,
          );
        }
        const path = join(context.piecesDirectory, `${piece.name}.partial`);
        current = { path, file: await openForWriting(path, 'replace') };
      } else if (event.type === 'data') {
        await current?.file.write(event.data);
        context.onBytes(piece.as, event.data.byteLength);
      } else if (current !== null) {
        await current.file.finish();
        await rename(current.path, join(context.piecesDirectory, piece.name));
        current = null;
        missing.delete(event.path);
      }
    }
  } finally {
    await current?.file.abandon();
  }
  const [path] = missing;
  if (path !== undefined) throw new WeightsError('refused', `${what} has no regular file ${path}`);
}

type TarEvent =
  | { type: 'start'; path: string; bytes: number }
  | { type: 'data'; path: string; data: Buffer }
  | { type: 'end'; path: string };

/**
 * The wanted regular files of a tar stream, in the order they come; everything else is skipped unread. Nothing is written
 * anywhere, so links, modes and odd names in the archive have no effect. Ends as soon as all were seen.
 */
async function* tarEntries(archive: AsyncIterable<Uint8Array>, wanted: ReadonlySet<string>): AsyncGenerator<TarEvent> {
  const events: TarEvent[] = [];
  const left = new Set(wanted);
  let failure: Error | null = null;
  const parser = new Parser({
    filter: (path, entry) => left.has(path) && isRegularFile(entry),
    onReadEntry: (entry) => {
      const { path } = entry;
      // The same path again later in the archive is not taken.
      left.delete(path);
      events.push({ type: 'start', path, bytes: entry.size });
      entry.on('data', (data) => events.push({ type: 'data', path, data }));
      entry.on('end', () => events.push({ type: 'end', path }));
    },
  });
  parser.on('error', (error: Error) => {
    failure = error;
  });

  let open = 0;
  function* drain(): Generator<TarEvent> {
    for (const event of events.splice(0)) {
      if (event.type === 'start') open += 1;
      if (event.type === 'end') open -= 1;
      yield event;
    }
    if (failure !== null) throw failure;
  }

  for await (const chunk of archive) {
    // Entries flow, so all that this chunk holds has become events when write returns: memory stays at one chunk.
    parser.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    yield* drain();
    if (left.size === 0 && open === 0) return;
  }
  parser.end();
  yield* drain();
}

const isRegularFile = (entry: unknown): boolean => {
  const { type } = entry as ReadEntry;
  return type === 'File' || type === 'OldFile';
};
