import { errors } from '../errors/errors.ts';

export const UPLOAD_PURPOSES = ['batch', 'transcription', 'user_data', 'vision'] as const;
/** Purpose of files that the service makes for message batches. Clients cannot upload them, and they are listed only on request. */
export const MESSAGE_BATCH = 'message_batch';
export const FILE_PURPOSES = [...UPLOAD_PURPOSES, MESSAGE_BATCH] as const;
export type FilePurpose = (typeof FILE_PURPOSES)[number];

export interface StoredFile {
  id: string;
  accountId: string;
  purpose: FilePurpose;
  filename: string;
  bytes: number;
  sha256: string;
  /** Key of its content in the blob store. */
  blobKey: string;
  /** Milliseconds since 1970, like `expiresAt`. */
  createdAt: number;
  expiresAt: number;
}

export function parsePurpose(text: string, accepted: readonly FilePurpose[] = FILE_PURPOSES): FilePurpose {
  const purpose = accepted.find((each) => each === text);
  if (purpose === undefined) throw errors.unsupportedPurpose(text.slice(0, 100), accepted);
  return purpose;
}

/** Prefix of all file blobs. A blob here without a file record is an orphan. */
export const FILE_BLOBS = 'files/';

/** How long clients may ask to keep a file. The retention of the account can be shorter, and then holds. */
export const LIFETIME_SECONDS = { min: 3_600, max: 2_592_000 } as const;

const MAX_NAME_CHARACTERS = 255;

/**
 * A safe name to show and to send in a header: no directories, no line breaks. It is never used as a path.
 * Browsers and SDKs write quotes and line breaks in form fields as %22, %0D and %0A, and escape nothing else.
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
