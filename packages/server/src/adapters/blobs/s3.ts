import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { StoreAwayError } from '@baobab/core/errors/store-unavailable.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import { requireBlobKey } from './keys.ts';
import { Availability } from './s3-availability.ts';
import { bucketProblem, isRefusal, send, toBlobError, unlessAbsent } from './s3-failures.ts';

/** An upload holds up to three parts in memory. */
const PART_BYTES = 8_388_608;
const PARTS_AT_ONCE = 2;

/** Stores an object. A failure leaves nothing behind. */
async function uploadObject(
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
async function abortUploads(
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

export interface S3BlobStore extends BlobStore {
  /** Removes the parts of interrupted uploads. Returns how many uploads. */
  sweepTemporary(olderThanMs: number): Promise<number>;
  /** S3 did not answer the last call. */
  isAway(): boolean;
  /** Reads them again from where the AWS SDK finds them. Returns whether there are others. */
  refreshCredentials(): Promise<boolean>;
  close(): void;
}

export interface S3BlobOptions {
  bucket: string;
  /** Start of all keys, without a slash at its end; may be empty. */
  prefix: string;
  /** Address of a server other than AWS. */
  endpoint?: string | undefined;
  region: string;
  /** Gives links for downloads. */
  withLinks: boolean;
  /** Milliseconds since 1970. */
  now: () => number;
  /** For servers: S3 is away, or back. Without it, the bucket must answer from the start. */
  onChange?: ((change: { isAway: boolean; error?: unknown }) => void) | undefined;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** Without any byte. */
const SILENCE_TIMEOUT_MS = 60_000;
/** More than one account may use for its downloads, so that a slow reader does not make others wait. */
const MAX_SOCKETS = 256;
const LINK_SECONDS = 300;
/** Those of a role are fetched over the network. */
const REFRESH_PAUSE_MS = 1_000;

/** Opens the store and checks that the bucket can be used. Credentials are those of the AWS SDK: variables, profile or machine role. */
export async function openS3BlobStore(options: S3BlobOptions): Promise<S3BlobStore> {
  const { bucket, endpoint, region, withLinks, now, onChange } = options;
  const Bucket = bucket;
  const start = options.prefix === '' ? '' : `${options.prefix}/`;
  const client = new S3Client({
    region,
    // Servers other than AWS seldom have a host name for each bucket.
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
    maxAttempts: 4,
    // The SDK keeps the content of files. It passes this on to what reads them, but its types do not know it here.
    ...({ ignoreCache: true } as object),
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: SILENCE_TIMEOUT_MS,
      httpAgent: { maxSockets: MAX_SOCKETS },
      httpsAgent: { maxSockets: MAX_SOCKETS },
    },
  });
  const keyOf = (key: string) => start + requireBlobKey(key);

  const ask = () => client.send(new HeadBucketCommand({ Bucket }));
  const availability = new Availability({ ask, onChange });
  const credentials = async (options?: { forceRefresh: boolean }): Promise<string> => {
    const { accessKeyId, secretAccessKey, sessionToken } = await client.config.credentials(options);
    return JSON.stringify([accessKeyId, secretAccessKey, sessionToken]);
  };
  let refreshedAt = Number.NEGATIVE_INFINITY;
  /** After a refusal of these. Many calls may be refused at once, for another reason too. */
  async function haveOthers(refused: string | undefined): Promise<boolean> {
    const isDue = performance.now() - refreshedAt >= REFRESH_PAUSE_MS;
    if (isDue) refreshedAt = performance.now();
    return (await credentials({ forceRefresh: isDue }).catch(() => refused)) !== refused;
  }
  client.middlewareStack.add(
    (next) => async (call) => {
      const sent = await credentials().catch(() => undefined);
      try {
        const answer = await next(call).catch(async (error: unknown) => {
          if (!isRefusal(error) || !(await haveOthers(sent))) throw error;
          return next(call);
        });
        availability.note();
        return answer;
      } catch (error) {
        availability.note(error);
        throw error;
      }
    },
    { step: 'initialize', name: 'availability' },
  );

  try {
    await ask();
  } catch (error) {
    const problem = bucketProblem(error, options);
    if (onChange === undefined || !(problem instanceof StoreAwayError)) {
      availability.close();
      client.destroy();
      throw problem;
    }
  }

  return {
    put: async (key, source) => uploadObject(client, { Bucket, Key: keyOf(key) }, source),

    async get(key, range) {
      const Range = range && `bytes=${range.start}-${range.end}`;
      const answer = await unlessAbsent(
        client.send(new GetObjectCommand({ Bucket, Key: keyOf(key), ...(Range && { Range }) })),
      );
      return answer?.Body as Readable | undefined;
    },

    async stat(key) {
      const found = await unlessAbsent(client.send(new HeadObjectCommand({ Bucket, Key: keyOf(key) })));
      return found && { key, bytes: found.ContentLength ?? 0, modifiedAt: found.LastModified?.getTime() ?? 0 };
    },

    ...(withLinks && {
      link: (key: string, filename: string) => {
        const ResponseContentDisposition = `attachment; filename*=UTF-8''${encodeURIComponent(filename)}`;
        const command = new GetObjectCommand({
          Bucket,
          Key: keyOf(key),
          ResponseContentDisposition,
          ResponseContentType: 'application/octet-stream',
        });
        return getSignedUrl(client, command, { expiresIn: LINK_SECONDS });
      },
    }),

    async delete(key) {
      // Some servers answer 404 to one of two that delete it at the same time.
      await unlessAbsent(client.send(new DeleteObjectCommand({ Bucket, Key: keyOf(key) })));
    },

    async *list(prefix) {
      let ContinuationToken: string | undefined;
      do {
        const query = { Bucket, Prefix: start + prefix, ...(ContinuationToken && { ContinuationToken }) };
        const page = await send(client.send(new ListObjectsV2Command(query)));
        for (const { Key, Size = 0, LastModified } of page.Contents ?? []) {
          // Some servers list directories.
          if (Key === undefined || Key.endsWith('/')) continue;
          yield { key: Key.slice(start.length), bytes: Size, modifiedAt: LastModified?.getTime() ?? 0 };
        }
        ContinuationToken = page.NextContinuationToken;
      } while (ContinuationToken !== undefined);
    },

    sweepTemporary: (olderThanMs) => abortUploads(client, { Bucket, Prefix: start }, now() - olderThanMs),

    isAway: () => availability.isAway,

    refreshCredentials: async () => (await credentials()) !== (await credentials({ forceRefresh: true })),

    close() {
      availability.close();
      client.destroy();
    },
  };
}
