import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { AbortMultipartUploadCommand, ListMultipartUploadsCommand, type S3Client } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { send, unlessAbsent } from './s3-calls.ts';
import { toBlobError } from './s3-failures.ts';

/** An upload holds up to three parts in memory. */
const PART_BYTES = 8_388_608;
const PARTS_AT_ONCE = 2;

/** Stores an object. A failure leaves nothing behind. */
export async function uploadObject(
  client: S3Client,
  target: { Bucket: string; Key: string },
  source: AsyncIterable<Uint8Array>,
): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256');
  let bytes = 0;
  let sourceFailure: { error: unknown } | undefined;
  async function* counted(): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of source) {
        hash.update(chunk);
        bytes += chunk.length;
        yield chunk;
      }
    } catch (error) {
      sourceFailure = { error };
      throw error;
    }
  }
  // One request for what fits in a part. A failure aborts an upload in parts, so nothing is left.
  const Body = Readable.from(counted());
  const upload = new Upload({
    client,
    params: { ...target, Body },
    partSize: PART_BYTES,
    queueSize: PARTS_AT_ONCE,
  });
  try {
    await upload.done();
  } catch (error) {
    throw sourceFailure === undefined ? toBlobError(error) : sourceFailure.error;
  } finally {
    // Ends the source too when S3 fails.
    Body.destroy();
  }
  return { bytes, sha256: hash.digest('hex') };
}

/** Removes the parts of uploads that began before a time and were interrupted. Returns how many uploads. */
export async function abortUploads(
  client: S3Client,
  { Bucket, Prefix }: { Bucket: string; Prefix: string },
  startedBefore: number,
): Promise<number> {
  let removed = 0;
  let marker: { KeyMarker?: string; UploadIdMarker?: string } | undefined = {};
  while (marker !== undefined) {
    const page: Awaited<ReturnType<typeof listUploads>> = await listUploads(client, {
      Bucket,
      Prefix,
      ...marker,
    });
    for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
      if ((Initiated?.getTime() ?? 0) > startedBefore) continue;
      await unlessAbsent(client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId })));
      removed += 1;
    }
    const { NextKeyMarker, NextUploadIdMarker } = page;
    marker = page.IsTruncated
      ? {
          ...(NextKeyMarker && { KeyMarker: NextKeyMarker }),
          ...(NextUploadIdMarker && { UploadIdMarker: NextUploadIdMarker }),
        }
      : undefined;
  }
  return removed;
}

const listUploads = (client: S3Client, input: ConstructorParameters<typeof ListMultipartUploadsCommand>[0]) =>
  send(client.send(new ListMultipartUploadsCommand(input)));
