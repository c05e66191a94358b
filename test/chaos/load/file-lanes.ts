import { createHash, randomBytes, randomUUID } from 'node:crypto';
import type { Random } from '../random.ts';
import type { Account, Caller } from './caller.ts';

export interface UploadedFile {
  name: string;
  sha256: string;
  /** Known when the upload was acknowledged. */
  id?: string;
  /** Asked to be deleted; sure when that was acknowledged. */
  deleted?: 'sure' | 'unsure';
  /** Downloads that are under way. */
  readers: number;
}

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

export function formOf(name: string, bytes: Uint8Array<ArrayBuffer>): FormData {
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([bytes]), name);
  return form;
}

/** Clients that store files, read them again and delete some. */
export function fileLanes(caller: Caller, random: Random) {
  /** Every upload that was tried. */
  const files: UploadedFile[] = [];
  const problems: string[] = [];

  async function upload(account: Account): Promise<void> {
    const bytes = randomBytes(
      random.between(1, 4) === 1 ? random.between(8_000_000, 12_000_000) : random.between(10, 200_000),
    );
    const file: UploadedFile = { name: `${randomUUID()}.bin`, sha256: sha256(bytes), readers: 0 };
    files.push(file);
    const answer = await caller.send(account, { kind: 'upload', path: '/v1/files', form: formOf(file.name, bytes) });
    if (answer !== undefined) file.id = answer.json<{ id: string }>().id;
  }

  async function download(account: Account): Promise<void> {
    const stored = files.filter(({ id, deleted }) => id !== undefined && deleted === undefined);
    if (stored.length === 0) return;
    const file = random.pick(stored);
    // A download that waits on a server which was cut off would rightly get a 404.
    if (random.next() < 0.2 && file.readers === 0) {
      file.deleted = 'unsure';
      const answer = await caller.send(account, { kind: 'delete', method: 'DELETE', path: `/v1/files/${file.id}` });
      if (answer !== undefined) file.deleted = 'sure';
      return;
    }
    file.readers += 1;
    const path = `/v1/files/${file.id}/content`;
    const answer = await caller
      .send(account, { kind: 'download', method: 'GET', path })
      .finally(() => (file.readers -= 1));
    if (answer !== undefined && sha256(answer.bytes) !== file.sha256)
      problems.push(`${file.id} was read with other bytes`);
  }
  return { files, problems, upload, download };
}
