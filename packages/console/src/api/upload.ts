import { texts } from '../texts/en/texts.ts';
import { ApiFailure, address, type Call, unsafeHeaders } from './client.ts';
import type { StoredFile } from './types.ts';

export type Purpose = 'batch' | 'transcription' | 'user_data' | 'vision';

export interface UploadOptions {
  purpose: Purpose;
  /** Of the request, such as the account. */
  query: Call['query'];
}

/** fetch reports no progress of an upload, so this uses the older interface. */
export function upload(
  file: File,
  { purpose, query }: UploadOptions,
  onProgress: (share: number) => void,
): Promise<StoredFile> {
  const form = new FormData();
  // The purpose comes first: the server reads the form as a stream.
  form.set('purpose', purpose);
  form.set('file', file);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', address('/v1/files', query));
    for (const [name, value] of Object.entries(unsafeHeaders())) request.setRequestHeader(name, value);
    request.responseType = 'json';
    request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0);
    request.onerror = () => reject(new ApiFailure(0, texts.errors.unreachable));
    request.onload = () => {
      if (request.status === 200) return resolve(request.response as StoredFile);
      const message = (request.response as { error?: { message?: string } } | null)?.error?.message;
      reject(new ApiFailure(request.status, message ?? texts.errors.status(request.status)));
    };
    request.send(form);
  });
}

/** What a file is for, by its name and the type that the browser gives it. */
export function purposeOf({ name, type }: Pick<File, 'name' | 'type'>): Purpose {
  if (/\.(jsonl|ndjson|json)$/i.test(name)) return 'batch';
  if (/^(audio|video)\//.test(type) || /\.(wav|mp3|flac|og[ga]|opus|m4a|webm)$/i.test(name)) return 'transcription';
  return type.startsWith('image/') ? 'vision' : 'user_data';
}
