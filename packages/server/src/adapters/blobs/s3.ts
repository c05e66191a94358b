import type { Readable } from 'node:stream';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  S3Client,
} from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import { requireBlobKey } from './keys.ts';
import { send, unlessAbsent } from './s3-calls.ts';
import { bucketProblem } from './s3-failures.ts';
import { abortUploads, uploadObject } from './s3-uploads.ts';

export interface S3BlobStore extends BlobStore {
  /** Removes the parts of interrupted uploads. Returns how many uploads. */
  sweepTemporary(olderThanMs: number): Promise<number>;
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
}

const CONNECT_TIMEOUT_MS = 5_000;
/** Without any byte. */
const SILENCE_TIMEOUT_MS = 60_000;
/** More than one account may use for its downloads, so that a slow reader does not make others wait. */
const MAX_SOCKETS = 256;
const LINK_SECONDS = 300;

/** Opens the store and checks that the bucket can be used. Credentials are those of the AWS SDK: variables, profile or machine role. */
export async function openS3BlobStore(options: S3BlobOptions): Promise<S3BlobStore> {
  const { bucket, endpoint, region, withLinks, now } = options;
  const Bucket = bucket;
  const start = options.prefix === '' ? '' : `${options.prefix}/`;
  const client = new S3Client({
    region,
    // Servers other than AWS seldom have a host name for each bucket.
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
    maxAttempts: 4,
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: SILENCE_TIMEOUT_MS,
      httpAgent: { maxSockets: MAX_SOCKETS },
      httpsAgent: { maxSockets: MAX_SOCKETS },
    },
  });
  const keyOf = (key: string) => start + requireBlobKey(key);

  try {
    await client.send(new HeadBucketCommand({ Bucket }));
  } catch (error) {
    client.destroy();
    throw bucketProblem(error, options);
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
      await send(client.send(new DeleteObjectCommand({ Bucket, Key: keyOf(key) })));
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

    close: () => client.destroy(),
  };
}
