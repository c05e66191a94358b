import type { RemoteSourceSpec, SourceSpec } from '@baobab/core/domain/model.ts';
import type { CatalogFile, Report } from './schema.ts';

type SourceFields = NonNullable<CatalogFile['versions'][number]['source']>;
type MirrorFields = NonNullable<SourceFields['mirrors']>[number];

/** Reports fields that the kind of source needs and does not have. */
export function checkSource(source: SourceFields, report: Report): void {
  checkFields(source, report);
  if (source.mirrors === undefined) return;
  if (source.kind === 'file') {
    report(['mirrors'], "a source of kind 'file' has no mirrors");
    return;
  }
  source.files?.forEach(({ sha256 }, index) => {
    if (sha256 === undefined) report(['files', index], 'a file with mirrors needs sha256');
  });
  source.mirrors.forEach((mirror, index) => {
    checkFields(withHashes(mirror, source), (path, text) => report(['mirrors', index, ...path], text));
    checkSameFiles(mirror, source, (text) => report(['mirrors', index], text));
  });
}

function checkFields(source: SourceFields | MirrorFields, report: Report): void {
  const { kind } = source;
  if (kind === 'hf' && (source.repo === undefined || source.revision === undefined)) {
    report([], "a source of kind 'hf' needs repo and revision");
  }
  if (kind === 'file' && source.path === undefined) report([], "a source of kind 'file' needs a path");
  if (kind !== 'file' && source.files === undefined) report([], `a source of kind '${kind}' needs files`);
  source.files?.forEach((file, index) => {
    if (kind !== 'hf' && kind !== 'file' && (file.from === undefined || file.sha256 === undefined)) {
      report(['files', index], `a file of kind '${kind}' needs sha256 and from`);
    }
    if (kind === 'hf' && file.path === undefined) report(['files', index], "a file of kind 'hf' needs a path");
  });
}

function checkSameFiles(mirror: MirrorFields, source: SourceFields, report: (text: string) => void): void {
  for (const { as } of source.files ?? []) {
    if (!mirror.files?.some((file) => file.as === as)) report(`does not have the file '${as}' of the source`);
  }
  for (const { as, sha256 } of mirror.files ?? []) {
    const original = source.files?.find((file) => file.as === as);
    if (original === undefined) report(`has a file '${as}' that the source does not have`);
    else if (sha256 !== undefined && sha256 !== original.sha256)
      report(`has another sha256 for '${as}' than the source`);
  }
}

/** A mirror holds the same bytes, so it takes size and hash from the source. */
function withHashes(mirror: MirrorFields, source: SourceFields): MirrorFields {
  if (mirror.files === undefined) return mirror;
  const files = mirror.files.map((file) => {
    const original = source.files?.find(({ as }) => as === file.as);
    return {
      ...file,
      ...(original?.sha256 === undefined ? {} : { sha256: original.sha256 }),
      ...(original?.bytes === undefined ? {} : { bytes: original.bytes }),
    };
  });
  return { ...mirror, files };
}

/** Call it only with what `checkSource` found no problem in. */
export function toSource(source: SourceFields | undefined): SourceSpec | undefined {
  if (source?.mirrors === undefined) return source as SourceSpec | undefined;
  const mirrors = source.mirrors.map((mirror) => withHashes(mirror, source) as RemoteSourceSpec);
  return { ...(source as RemoteSourceSpec), mirrors };
}
