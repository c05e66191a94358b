import { chmod, lstat, mkdir, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname } from 'node:path';
import type { EngineReport } from '@baobab/core/engine/report.ts';
import { controlSocketPath, userId } from './socket.ts';

export interface ControlHandlers {
  engines(): Promise<EngineReport[]>;
  /** Whether requests can be answered: for health checks that need neither the port nor a certificate. */
  isReady(): Promise<boolean>;
  /** Reads the catalog again, after a command has changed it. */
  reloadCatalog(): Promise<void>;
}

export interface ControlServer {
  close(): Promise<void>;
}

/** A socket outside the data directory is in a folder where every user may write, so its own folder must belong to this user. */
async function makePrivate(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const { uid } = await lstat(directory);
  if (uid !== userId()) throw new Error(`the folder ${directory} belongs to another user`);
}

/** Answers the operator's commands on this machine. The caller is alone on the data directory, so an existing socket is stale. */
export async function startControlServer(
  dataDir: string,
  { engines, isReady, reloadCatalog }: ControlHandlers,
): Promise<ControlServer> {
  const path = controlSocketPath(dataDir);
  if (process.platform !== 'win32') {
    await makePrivate(dirname(path));
    await rm(path, { force: true });
  }
  const server = createServer((request, response) => {
    if (request.method === 'POST' && request.url === '/catalog/reload') {
      reloadCatalog().then(
        () => response.writeHead(200).end('{}'),
        (error: unknown) => response.writeHead(500).end(JSON.stringify({ problem: (error as Error).message })),
      );
      return;
    }
    if (request.method === 'GET' && request.url === '/ready') {
      isReady().then(
        (ready) => response.writeHead(ready ? 200 : 503).end(),
        () => response.writeHead(503).end(),
      );
      return;
    }
    if (request.method !== 'GET' || request.url !== '/engines') {
      response.writeHead(404).end();
      return;
    }
    engines().then(
      (reports) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(reports)),
      () => response.writeHead(500).end(),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
  if (process.platform !== 'win32') await chmod(path, 0o600);
  return {
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
