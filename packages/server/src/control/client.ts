import { request } from 'node:http';
import { json } from 'node:stream/consumers';
import type { EngineReport } from '@baobab/core/engine/report.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { ControlError, controlSocketPath } from './socket.ts';

const TIMEOUT_MS = 3_000;
/** Every worker of a busy server reads all files again. */
const RELOAD_TIMEOUT_MS = 60_000;

/** The models of the running server. Undefined when no server runs on this data directory. */
export const askEngines = (dataDir: string): Promise<EngineReport[] | undefined> =>
  ask(dataDir, 'GET', '/engines') as Promise<EngineReport[] | undefined>;

/** Makes the running server read the catalog again. Undefined when no server runs on this data directory. */
export const askCatalogReload = (dataDir: string): Promise<{ problem?: string } | undefined> =>
  ask(dataDir, 'POST', '/catalog/reload', RELOAD_TIMEOUT_MS) as Promise<{ problem?: string } | undefined>;

function ask(dataDir: string, method: string, path: string, timeout = TIMEOUT_MS): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const place = { socketPath: controlSocketPath(dataDir), path, method, timeout };
    const call = request(place, (response) => {
      json(response).then(resolve, reject);
    });
    call.on('timeout', () => call.destroy(new ControlError(`the server on ${dataDir} does not answer`)));
    call.end();
    call.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ECONNREFUSED') resolve(undefined);
      else if (error instanceof ControlError) reject(error);
      else {
        const text = `the server on ${dataDir} cannot be asked: ${systemReason(error)}. Run the command as its user, or name another directory with --data-dir`;
        reject(new ControlError(text, { cause: error }));
      }
    });
  });
}
