import type { ResolvedConfig } from '../../config/load.ts';
import { announceServer } from '../../control/running-servers.ts';
import { type ControlHandlers, type ControlServer, startControlServer } from '../../control/server.ts';

export interface OpenControl {
  server: ControlServer;
  /** Removes the hint for commands that look for servers. */
  withdraw(): Promise<void>;
}

/** Lets commands on this machine find and ask the process that holds the data directory. */
export async function openControl({ dataDir }: ResolvedConfig, handlers: ControlHandlers): Promise<OpenControl> {
  const server = await startControlServer(dataDir, handlers);
  return { server, withdraw: await announceServer(dataDir) };
}
