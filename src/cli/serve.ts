import { startService } from '../compose.ts';
import type { Command } from './command.ts';

function greeting(address: string, secret: string): string {
  return `
Baobab serves on ${address}

Your first key, shown this once only:

    ${secret}

Try it:

    curl ${address}/v1/models -H "Authorization: Bearer ${secret}"

API reference: ${address}/docs
`;
}

export const serveCommand: Command = {
  summary: 'Run the service',
  usage: ['[--host H] [--port N] [--data-dir DIR] [--config FILE] [any other setting as a flag]'],
  async run({ config, env, print }) {
    const service = await startService(config, env);
    const { address, firstKey } = service;
    if (firstKey === undefined) print(`Baobab serves on ${address}`);
    // A key that came from the environment is known to whoever set it.
    else if (config.apiKey !== undefined) print(`Baobab serves on ${address} (first key: as set in BAOBAB_API_KEY)`);
    else print(greeting(address, firstKey.secret));

    await new Promise<void>((resolve, reject) => {
      let stopping = false;
      const stop = () => {
        // A second signal means now.
        if (stopping) process.exit(130);
        stopping = true;
        service.close().then(resolve, reject);
      };
      process.on('SIGINT', stop);
      process.on('SIGTERM', stop);
    });
  },
};
