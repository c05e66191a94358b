import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { startControlServer } from './server.ts';
import { controlSocketPath } from './socket.ts';

const SCRIPT = `
import os from 'node:os';
import { syncBuiltinESMExports } from 'node:module';
os.userInfo = () => { throw new Error('uv_os_get_passwd returned ENOENT'); };
syncBuiltinESMExports();
const { startControlServer } = await import(${JSON.stringify(new URL('./server.ts', import.meta.url).href)});
const { runningServers } = await import(${JSON.stringify(new URL('./running-servers.ts', import.meta.url).href)});
const handlers = { engines: async () => [], isReady: async () => true, reloadCatalog: async () => {} };
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

it('answers health checks without a port or a certificate', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'baobab-control-'));
  let readiness: () => Promise<boolean> = async () => true;
  const handlers = { engines: async () => [], isReady: () => readiness(), reloadCatalog: async () => {} };
  const server = await startControlServer(directory, handlers);
  const status = () =>
    new Promise((resolve, reject) => {
      const call = request({ socketPath: controlSocketPath(directory), path: '/ready' }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      call.on('error', reject).end();
    });
  try {
    expect(await status()).toBe(200);
    readiness = async () => false;
    expect(await status()).toBe(503);
    readiness = () => Promise.reject(new Error('the worker does not answer'));
    expect(await status()).toBe(503);
  } finally {
    await server.close();
    await rm(directory, { recursive: true });
  }
});
