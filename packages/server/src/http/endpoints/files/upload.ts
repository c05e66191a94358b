import { LIFETIME_SECONDS, parsePurpose, UPLOAD_PURPOSES } from '@baobab/core/domain/file.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { FilesService } from '../../../services/files/files.ts';
import { openUploadForm } from '../../body/upload-form.ts';
import { forgettingRefusal, hashBody } from '../../request/idempotent-run.ts';
import { principalOf } from '../../request/request-record.ts';
import { fileToWire } from './schema.ts';

const ANCHOR = 'expires_after[anchor]';
const SECONDS = 'expires_after[seconds]';

/** Milliseconds in OpenAI's `expires_after`, which a form sends as two fields. Undefined: there is none. */
function lifetimeOfForm(field: (name: string) => string | undefined): number | undefined {
  if (field('expires_after') !== undefined) {
    // Ignoring it would keep a file longer than its owner wants.
    throw errors.invalidParameter('expires_after', `Send 'expires_after' as two fields, '${ANCHOR}' and '${SECONDS}'.`);
  }
  const [anchor, seconds] = [field(ANCHOR), field(SECONDS)];
  if (anchor === undefined && seconds === undefined) return undefined;
  if (anchor === undefined) throw errors.missingParameter(ANCHOR);
  if (seconds === undefined) throw errors.missingParameter(SECONDS);
  if (anchor !== 'created_at') throw errors.invalidParameter(ANCHOR, `'${ANCHOR}' must be 'created_at'.`);
  const { min, max } = LIFETIME_SECONDS;
  const value = /^\d{1,10}$/.test(seconds) ? Number(seconds) : Number.NaN;
  if (!(value >= min && value <= max)) {
    throw errors.invalidParameter(SECONDS, `'${SECONDS}' must be a whole number from ${min} to ${max}.`);
  }
  return value * 1000;
}

/** Stores the file of a form, once for each idempotency key. */
export async function receiveUpload(files: FilesService, request: FastifyRequest, reply: FastifyReply) {
  const form = await openUploadForm(request);
  const purpose = (text = form.field('purpose')) => {
    if (text === undefined) throw errors.missingParameter('purpose');
    return parsePurpose(text, UPLOAD_PURPOSES);
  };
  const lifetimeMs = () => lifetimeOfForm(form.field);
  // A purpose that precedes the file is checked before the file is read.
  if (form.field('purpose') !== undefined) purpose();
  const upload = {
    filename: form.filename,
    content: form.content,
    purpose,
    lifetimeMs,
    announcedBytes: Number(request.headers['content-length'] ?? 0),
    isKeyed: request.headers['idempotency-key'] !== undefined,
  };
  const received = await files.receive(principalOf(request).account.id, upload).catch((error) => {
    form.discard();
    throw error;
  });
  const { filename, purpose: decided, sha256 } = received.file;
  let isReplay = true;
  try {
    // Forms with the same file differ in their bytes, so their content is compared.
    const meaning = [filename, decided, sha256, lifetimeMs()];
    isReplay = await request.server.replayed(request, reply, { hash: hashBody(JSON.stringify(meaning)) });
  } finally {
    // Also if the key was used with another file before.
    if (isReplay) await received.discard();
  }
  if (isReplay) return reply;
  return fileToWire(await forgettingRefusal(request, () => received.publish(request.idempotentRun)));
}
