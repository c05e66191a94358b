import { errors } from '../errors/errors.ts';

export const FILE_PURPOSES = ['batch', 'transcription'] as const;
export type FilePurpose = (typeof FILE_PURPOSES)[number];

export interface StoredFile {
  id: string;
  accountId: string;
  purpose: FilePurpose;
  filename: string;
  bytes: number;
  sha256: string;
  /** Where its bytes lie in the blob store. */
  blobKey: string;
  /** Milliseconds since 1970, like the next one. */
  createdAt: number;
  expiresAt: number;
}

export function parsePurpose(text: string): FilePurpose {
  const purpose = FILE_PURPOSES.find((each) => each === text);
  if (purpose === undefined) throw errors.unsupportedPurpose(text.slice(0, 100), FILE_PURPOSES);
  return purpose;
}

/** Every blob below belongs to a record of a file, or is an orphan. */
export const FILE_BLOBS = 'files/';

const MAX_NAME_CHARACTERS = 255;

/**
 * A name to show and to download under: no directories, nothing that could end a header line. It never becomes a path here.
 * Forms made by browsers and SDKs write quotes and line ends as %22, %0D and %0A, and nothing else that way.
 */
export function cleanFilename(sent: string): string {
  const last =
    sent
      .toWellFormed()
      .split(/[/\\]/)
      .at(-1)
      ?.replaceAll(/%22/g, '"')
      .replaceAll(/%0[DA]/g, '') ?? '';
  const name = [...last.replace(/[\p{Cc}\u2028\u2029]/gu, '')].slice(0, MAX_NAME_CHARACTERS).join('').trim();
  return name === '' || name === '.' || name === '..' ? 'file' : name;
}
