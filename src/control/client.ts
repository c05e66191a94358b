import { get } from 'node:http';
import { json } from 'node:stream/consumers';
import { controlSocketPath, type EngineReport } from './socket.ts';

const TIMEOUT_MS = 3_000;

/** The models of the running server. Undefined when no server runs on this data directory. */
export function askEngines(dataDir: string): Promise<EngineReport[] | undefined> {
  return new Promise((resolve, reject) => {
    const request = get(
      { socketPath: controlSocketPath(dataDir), path: '/engines', timeout: TIMEOUT_MS },
      (response) => {
        json(response).then((reports) => resolve(reports as EngineReport[]), reject);
      },
    );
    request.on('timeout', () => request.destroy(new Error('the running server does not answer')));
    request.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ECONNREFUSED') resolve(undefined);
      else reject(error);
    });
  });
}
