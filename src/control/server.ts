import { chmod, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { controlSocketPath, type EngineReport } from './socket.ts';

export interface ControlServer {
  close(): Promise<void>;
}

/** Answers the operator's commands on this machine. The caller holds the lock of the data directory, so a socket left there is stale. */
export async function startControlServer(
  dataDir: string,
  engines: () => Promise<EngineReport[]>,
): Promise<ControlServer> {
  const path = controlSocketPath(dataDir);
  if (process.platform !== 'win32') await rm(path, { force: true });
  const server = createServer((request, response) => {
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
