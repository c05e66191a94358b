import { link, mkdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { requireSpace, type StatFileSystem } from './disk-space.ts';
import { type Digest, digestOfFile, openForWriting, readChunks, syncDirectory } from './file-content.ts';
import { describeFile, type Manifest, writeManifest } from './manifest.ts';
import { type ModelPaths, placeInside, type StoredModel } from './model-paths.ts';
import { createProgressMeter, type PullProgress } from './progress-meter.ts';
import type { ExpectedFile, RemoteSource } from './sources/source.ts';
import { WeightsError, type WeightsFailure } from './weights-error.ts';

export interface PullDependencies {
  clock: Clock;
  statFileSystem: StatFileSystem;
  logger: Pick<Logger, 'info'>;
}

export interface PullRequest {
  model: StoredModel;
  paths: ModelPaths;
  /** Files of the store by their sha256, to be linked instead of fetched. */
  installed: ReadonlyMap<string, string>;
  signal: AbortSignal;
  onProgress(progress: PullProgress): void;
}

/**
 * Fetches, verifies and installs, in this order. All work happens in the staging directory on the same file system, and one
 * rename installs the whole model. Files of a killed pull are verified and used again. The caller
 * holds the model's lock.
 */
async function pullModel(
  source: RemoteSource,
  request: PullRequest,
  dependencies: PullDependencies,
): Promise<Manifest> {
  const { model, paths, installed, signal } = request;
  const label = `${model.slug}@${model.version}`;
  const expected = await source.describe(signal);
  const filesDirectory = join(paths.staging, 'files');
  const piecesDirectory = join(paths.staging, 'pieces');
  await mkdir(filesDirectory, { recursive: true });
  await mkdir(piecesDirectory, { recursive: true });

  const digests = new Map<string, Digest>();
  const missing: ExpectedFile[] = [];
  for (const file of expected) {
    const digest = await reuse(
      file,
      filesDirectory,
      [installed.get(file.sha256 ?? ''), placeInside(paths.directory, file.as)],
      signal,
    );
    if (digest === null) missing.push(file);
    else digests.set(file.as, digest);
  }

  const incomplete = await Promise.all(missing.map((file) => withoutFinishedPieces(file, piecesDirectory)));
  const totalBytes = sumOfBytes(expected);
  const leftBytes = missing.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0);
  const stagedBytes = incomplete.reduce((sum, { finishedBytes }) => sum + finishedBytes, 0);
  await requireSpace(label, paths.staging, spaceFor(missing) - stagedBytes, dependencies.statFileSystem);

  using meter = createProgressMeter(dependencies.clock, totalBytes, request.onProgress);
  meter.skip((totalBytes ?? leftBytes) - leftBytes + stagedBytes);
  await source.fetch(
    incomplete.map(({ file }) => file),
    { signal, piecesDirectory, onBytes: meter.add },
  );
  for (const file of missing) {
    digests.set(file.as, await assemble(label, file, { filesDirectory, piecesDirectory, signal }));
  }
  meter.finish(expected.at(-1)?.as ?? '');

  const files = [];
  for (const { as } of expected) {
    files.push(await describeFile(filesDirectory, as, digests.get(as)?.sha256 ?? ''));
  }
  const manifest: Manifest = { format: 1, slug: model.slug, version: model.version, files };
  await writeManifest(filesDirectory, manifest);
  await syncDirectory(filesDirectory);
  await putInPlace(filesDirectory, paths);
  return manifest;
}

/** Failures of one source that another one may not have. */
const WORTH_ANOTHER_SOURCE = new Set<WeightsFailure>(['offline', 'unreachable', 'refused', 'mismatch']);

/** Pulls from the first source that delivers the expected files. The error names what went wrong with each. */
export async function pullFromFirst(
  sources: readonly RemoteSource[],
  request: PullRequest,
  dependencies: PullDependencies,
): Promise<Manifest> {
  const failures: WeightsError[] = [];
  for (const source of sources) {
    try {
      return await pullModel(source, request, dependencies);
    } catch (error) {
      request.signal.throwIfAborted();
      if (!(error instanceof WeightsError) || !WORTH_ANOTHER_SOURCE.has(error.failure)) throw error;
      failures.push(error);
      if (failures.length === sources.length) break;
      const { slug, version } = request.model;
      dependencies.logger.info({ model: slug, version, reason: error.message }, 'trying the next source of weights');
    }
  }
  const [first] = failures;
  if (first === undefined || failures.length === 1) throw first ?? new TypeError('There is no source to pull from');
  // One source that may answer later is enough to try again.
  const { failure } = failures.find((each) => each.failure === 'unreachable') ?? first;
  throw new WeightsError(failure, failures.map(({ message }) => message).join('. '), first);
}

function sumOfBytes(files: readonly ExpectedFile[]): number | null {
  let sum = 0;
  for (const { bytes } of files) {
    if (bytes === null) return null;
    sum += bytes;
  }
  return sum;
}

/** Joining needs space for the pieces and the whole. */
const spaceFor = (files: readonly ExpectedFile[]): number =>
  files.reduce((sum, { bytes, pieces }) => sum + (bytes ?? 0) * (pieces.length > 1 ? 2 : 1), 0);

const matches = (file: ExpectedFile, digest: Digest): boolean => {
  if (file.bytes !== null && file.bytes !== digest.bytes) return false;
  if (file.sha256 !== null) return file.sha256 === digest.sha256;
  return file.gitOid !== null && file.gitOid === digest.gitOid;
};

const digestOf = (path: string, file: ExpectedFile, signal: AbortSignal): Promise<Digest> =>
  digestOfFile(path, signal, { gitOid: file.sha256 === null });

/** A file from an earlier pull, or one that this or another model has already. */
async function reuse(
  file: ExpectedFile,
  filesDirectory: string,
  candidates: readonly (string | undefined)[],
  signal: AbortSignal,
): Promise<Digest | null> {
  const staged = placeInside(filesDirectory, file.as);
  await mkdir(dirname(staged), { recursive: true });
  for (const candidate of candidates) {
    // A hard link, so that the installed model stays complete until the new directory replaces it.
    if (candidate !== undefined) await link(candidate, staged).catch(() => {});
    if ((await stat(staged).catch(() => null)) === null) continue;
    const digest = await digestOf(staged, file, signal);
    if (matches(file, digest)) return digest;
    await rm(staged);
  }
  return null;
}

async function withoutFinishedPieces(file: ExpectedFile, piecesDirectory: string) {
  const pieces: string[] = [];
  let finishedBytes = 0;
  for (const piece of file.pieces) {
    const found = await stat(join(piecesDirectory, piece)).catch(() => null);
    if (found === null) pieces.push(piece);
    else finishedBytes += found.size;
  }
  return { file: { ...file, pieces }, finishedBytes };
}

async function assemble(
  label: string,
  file: ExpectedFile,
  { filesDirectory, piecesDirectory, signal }: { filesDirectory: string; piecesDirectory: string; signal: AbortSignal },
): Promise<Digest> {
  const pieces = file.pieces.map((piece) => join(piecesDirectory, piece));
  const whole = pieces.length === 1 ? (pieces[0] ?? '') : await joinPieces(pieces, signal);
  const digest = await digestOf(whole, file, signal);
  if (!matches(file, digest)) {
    await removeAll([whole, ...pieces]);
    const wanted = file.sha256 === null ? `git object ${file.gitOid}` : `sha256 ${file.sha256}`;
    throw new WeightsError(
      'mismatch',
      `${file.as} of ${label} is not what the catalog expects and was removed: ` +
        `got ${digest.bytes} bytes with sha256 ${digest.sha256} instead of ${file.bytes ?? 'any number of'} bytes with ${wanted}`,
    );
  }
  await rename(whole, placeInside(filesDirectory, file.as));
  await removeAll(pieces);
  return digest;
}

async function joinPieces(pieces: readonly string[], signal: AbortSignal): Promise<string> {
  const joined = `${pieces[0]}.joined`;
  const target = await openForWriting(joined, 'replace');
  try {
    for await (const chunk of readChunks(pieces, signal)) await target.write(chunk);
  } catch (error) {
    await target.abandon();
    throw error;
  }
  await target.finish();
  return joined;
}

const removeAll = (paths: readonly string[]) => Promise.all(paths.map((path) => rm(path, { force: true })));

async function putInPlace(filesDirectory: string, paths: ModelPaths): Promise<void> {
  const parent = dirname(paths.directory);
  await mkdir(parent, { recursive: true });
  // A directory can only be renamed onto an empty one. After a kill between the two renames, the next pull finds everything staged.
  const replaced = join(paths.staging, 'replaced');
  await rm(replaced, { recursive: true, force: true });
  await rename(paths.directory, replaced).catch(ignoreMissing);
  await rename(filesDirectory, paths.directory);
  await syncDirectory(parent);
  await rm(paths.staging, { recursive: true, force: true });
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}
