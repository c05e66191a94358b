import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { noNewPrivileges } from '@baobab/core/sandbox/privileges.ts';
import { expect, it } from 'vitest';
import { spawnChild } from './child-process.ts';

const logger = { debug() {}, info() {}, warn() {}, error() {} };

it('starts engine processes that can never gain rights, where the system offers that', async () => {
  const { child } = spawnChild({ flags: [], restricted: true, environment: {}, logger, model: 'acme/model@1' });
  const facts = async (file: string) => readFile(`/proc/${child.pid}/${file}`, 'utf8').catch(() => '');
  const [setpriv] = noNewPrivileges();
  if (setpriv !== undefined) {
    // It becomes Node.
    await expect.poll(() => facts('cmdline')).toMatch(/^[^\0]*node/);
    expect(await facts('status')).toMatch(/NoNewPrivs:\s+1/);
  }
  child.kill('SIGKILL');
});

it.runIf(process.platform === 'linux')(
  'throws when the server has no file descriptor left, and no more than that',
  async () => {
    const program = join(import.meta.dirname, 'testing/no-descriptors-left.ts');
    const limited = ['-c', 'ulimit -n 64 && exec "$@"', 'sh', process.execPath, program];
    const { stdout } = await promisify(execFile)('sh', limited);
    expect(stdout).toContain('The engine process has no pipe');
  },
);
