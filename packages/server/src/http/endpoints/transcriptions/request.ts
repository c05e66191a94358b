import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyRequest } from 'fastify';
import type { AccountAmounts } from '../../../admission/account-amounts.ts';
import { accepts } from '../../../validation/first-problem.ts';
import { formError } from '../../body/upload-form.ts';
import { explainInvalid } from '../../body/validation.ts';
import { principalOf } from '../../request/request-record.ts';
import type { TranscriptionBody, TranscriptionRequest, TranslationRequest } from './schema.ts';

type Schema = typeof TranscriptionRequest | typeof TranslationRequest;

export interface TranscriptionForm extends AsyncDisposable {
  body: TranscriptionBody;
  /** Path of the uploaded file until the form is disposed. */
  path: string | undefined;
  /** Size of that file. */
  bytes: number;
  /** Equal for equal forms, also with different boundaries. */
  hash: string;
}

const LIMITS = { files: 1, fields: 50, fieldSize: 65_536, parts: 51 };

const BOOLEANS = new Map([
  ['true', true],
  ['1', true],
  ['false', false],
  ['0', false],
  ['', false],
]);

function toBody(fields: ReadonlyMap<string, string[]>, schema: Schema): TranscriptionBody {
  const one = (name: string) => fields.get(name)?.at(-1);
  const granularities = fields.get('timestamp_granularities[]') ?? fields.get('timestamp_granularities');
  const temperature = one('temperature');
  const stream = one('stream');
  const others = [...fields].map(([name, values]) => [name.split('[', 1)[0] ?? '', values.at(-1)] as const);
  const body = Object.fromEntries(
    Object.entries({
      // Checked against what is not supported: `include[]`, `chunking_strategy[type]`.
      ...Object.fromEntries(others),
      model: one('model'),
      file_id: one('file_id'),
      language: one('language') || undefined,
      prompt: one('prompt'),
      temperature: temperature === undefined || temperature === '' ? undefined : Number(temperature),
      response_format: one('response_format'),
      timestamp_granularities: granularities,
      stream: BOOLEANS.get(stream ?? '') ?? stream,
    }).filter(([, value]) => value !== undefined),
  );
  return checkedBody(body, schema);
}

/** Checks the fields of a form or of JSON. */
export function checkedBody(sent: unknown, schema: Schema): TranscriptionBody {
  // Official clients send null for fields that are not set.
  const body =
    typeof sent === 'object' && sent !== null
      ? Object.fromEntries(Object.entries(sent).filter(([, value]) => value !== null))
      : sent;
  if (!accepts(schema, body)) throw explainInvalid(schema, body);
  return body;
}

export interface TranscriptionFormOptions {
  schema: Schema;
  directory: string;
  /** Largest size of one file. */
  maxBytes: number;
  /** Bounds the files of each account that are on the disk at a time. */
  received: AccountAmounts;
}

/** Reads the whole form in bounded memory: writes the file to disk and hashes it. */
export async function readTranscriptionForm(
  request: FastifyRequest,
  { schema, directory, maxBytes, received }: TranscriptionFormOptions,
): Promise<TranscriptionForm> {
  const accountId = principalOf(request).account.id;
  const fields = new Map<string, string[]>();
  const hash = createHash('sha256');
  let path: string | undefined;
  let bytes = 0;
  const remove = async () => {
    // At once, so that one refused file makes room for the others.
    received.remove(accountId, bytes);
    if (path !== undefined) await rm(path, { force: true });
  };
  async function* counted(file: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of file) {
      if (!received.add(accountId, chunk.length)) throw errors.tooManyAtOnce('uploads of this account are running');
      hash.update(chunk);
      bytes += chunk.length;
      yield chunk;
    }
  }
  try {
    for await (const part of request.parts({ limits: { ...LIMITS, fileSize: maxBytes + 1 } })) {
      if (part.type === 'field') {
        fields.set(part.fieldname, [...(fields.get(part.fieldname) ?? []), String(part.value)]);
        continue;
      }
      if (part.fieldname !== 'file')
        throw errors.invalidParameter(part.fieldname, "The audio must be in the part 'file'.");
      await mkdir(directory, { recursive: true });
      path = join(directory, `upload-${randomUUID()}`);
      await pipeline(part.file, counted, createWriteStream(path, { mode: 0o600 }));
      if (part.file.truncated) throw errors.fileTooLarge(maxBytes);
    }
    const body = toBody(fields, schema);
    hash.update(JSON.stringify(body));
    return { body, path, bytes, hash: hash.digest('hex'), [Symbol.asyncDispose]: remove };
  } catch (error) {
    // A client that is still sending does not read its answer.
    request.raw.unpipe();
    request.raw.resume();
    await remove();
    throw formError(error);
  }
}
