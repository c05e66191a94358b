import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const SCRIPT = `
import os from 'node:os';
import { syncBuiltinESMExports } from 'node:module';
os.userInfo = () => { throw new Error('uv_os_get_passwd returned ENOENT'); };
syncBuiltinESMExports();
const { startControlServer } = await import(${JSON.stringify(new URL('./server.ts', import.meta.url).href)});
const { runningServers } = await import(${JSON.stringify(new URL('./running-servers.ts', import.meta.url).href)});
const handlers = { engines: async () => [], reloadCatalog: async () => {} };
const server = await startControlServer(process.argv[1], handlers);
await server.close();
await runningServers();
console.log('started');
`;

it('starts for a user without a name, as in a container that runs under any user id', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'baobab-control-'));
  try {
    const args = ['--input-type=module', '--eval', SCRIPT, directory];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    expect(stdout).toBe('started\n');
  } finally {
    await rm(directory, { recursive: true });
  }
});
