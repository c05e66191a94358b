import { readFile, stat } from 'node:fs/promises';
import { createSecureContext, type Server } from 'node:tls';
import type { Logger } from '@baobab/core/ports/logger.ts';

/** Paths of PEM files. */
export interface CertificateFiles {
  cert: string;
  key: string;
}

export interface Certificate {
  cert: Buffer;
  key: Buffer;
}

/** Throws if a file cannot be read, or if key and certificate do not belong together. */
export async function readCertificate(files: CertificateFiles): Promise<Certificate> {
  const [cert, key] = await Promise.all([readFile(files.cert), readFile(files.key)]);
  createSecureContext({ cert, key });
  return { cert, key };
}

const CHECK_INTERVAL_MS = 5_000;

/** Changes whenever one of the files is written or replaced. Follows symbolic links, which certbot and Kubernetes swap. */
async function stampOf({ cert, key }: CertificateFiles): Promise<string> {
  const found = await Promise.all([cert, key].map((path) => stat(path, { bigint: true })));
  return found.map(({ ino, size, mtimeNs }) => `${ino} ${size} ${mtimeNs}`).join(', ');
}

export interface CertificateWatchOptions {
  files: CertificateFiles;
  logger: Pick<Logger, 'info' | 'error'>;
  checkIntervalMs?: number;
}

/**
 * Uses a renewed certificate for new connections; open ones go on with the old one. Polls, because file events are lost when a link or
 * a directory on the way is replaced.
 */
export function watchCertificate(server: Server, options: CertificateWatchOptions): { stop(): void } {
  const { files, logger, checkIntervalMs = CHECK_INTERVAL_MS } = options;
  let loaded: string | undefined;
  let failed: string | undefined;

  async function check(): Promise<void> {
    let stamp = 'unreadable';
    try {
      stamp = await stampOf(files);
      loaded ??= stamp;
      if (stamp === loaded) return;
      server.setSecureContext(await readCertificate(files));
      loaded = stamp;
      failed = undefined;
      logger.info(files, 'loaded the new TLS certificate');
    } catch (error) {
      // Happens between the writes of the two files too: retried at the next check.
      if (stamp !== failed)
        logger.error({ err: error, ...files }, 'failed to load the new TLS certificate, using the old one');
      failed = stamp;
    }
  }
  void check();
  const timer = setInterval(() => void check(), checkIntervalMs);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}
