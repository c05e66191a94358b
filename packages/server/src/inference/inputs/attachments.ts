import type { StoredFile } from '@baobab/core/domain/file.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Field } from '@baobab/core/errors/fields.ts';
import type { ByteRange } from '@baobab/core/ports/blobs.ts';

/** Uploaded files, as far as prompts name them. */
export interface InputFiles {
  /** Throws 404 for files that do not exist or belong to another account. `field` is where the client named the file. */
  get(accountId: string, id: string, field?: Field): Promise<StoredFile>;
  open(file: StoredFile, range?: ByteRange): Promise<AsyncIterable<Buffer>>;
}

export interface AttachmentLimits {
  maxPerRequest: number;
  /** Largest size of all together. */
  maxBytes: number;
}

/** Throws when there are too many. Returns a function that adds up their bytes, and throws when they are too large together. */
export function checkAttachments(
  kind: 'documents' | 'images',
  references: readonly { field: Field }[],
  { maxPerRequest, maxBytes }: AttachmentLimits,
): (bytes: number, field: Field) => void {
  const [first] = references;
  if (first !== undefined && references.length > maxPerRequest) {
    throw errors.validationFailed(
      first.field,
      `The request has ${references.length} ${kind}; at most ${maxPerRequest} are accepted.`,
    );
  }
  let sum = 0;
  return (bytes, field) => {
    sum += bytes;
    if (sum <= maxBytes) return;
    throw errors.validationFailed(field, `The ${kind} of the request are larger than ${maxBytes} bytes together.`);
  };
}

/** The first bytes of a file, by default all. */
export async function readFileStart(
  files: Pick<InputFiles, 'open'>,
  file: StoredFile,
  bytes = file.bytes,
): Promise<Buffer> {
  if (file.bytes === 0) return Buffer.alloc(0);
  const parts: Buffer[] = [];
  for await (const part of await files.open(file, { start: 0, end: Math.min(file.bytes, bytes) - 1 })) parts.push(part);
  return Buffer.concat(parts);
}
