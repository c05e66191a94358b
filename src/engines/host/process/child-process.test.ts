import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { noNewPrivileges } from '../../../runtime/no-new-privileges.ts';
import { spawnChild } from './child-process.ts';

const logger = { debug() {}, info() {}, warn() {}, error() {} };
const options = { flags: [], restricted: false, niceness: 0, environment: {}, logger, model: 'acme/model@1' };

it('starts engine processes that can never gain rights, where the system offers that', async () => {
  const { child } = spawnChild({ ...options, restricted: true });
  const facts = async (file: string) => readFile(`/proc/${child.pid}/${file}`, 'utf8').catch(() => '');
  const [setpriv] = noNewPrivileges();
  if (setpriv !== undefined) {
    // It becomes Node.
    await expect.poll(() => facts('cmdline'), { timeout: 10_000 }).toMatch(/^[^\0]*node/);
    expect(await facts('status')).toMatch(/NoNewPrivs:\s+1/);
  }
  child.kill('SIGKILL');
});

it('starts engine processes with a lower priority than the server, where the driver asks for it', () => {
  const [equal, lower] = [0, 5].map((niceness) => spawnChild({ ...options, niceness }).child);
  expect(getPriority(equal?.pid)).toBe(getPriority());
  expect(getPriority(lower?.pid)).toBe(Math.min(19, getPriority() + 5));
  for (const child of [equal, lower]) child?.kill('SIGKILL');
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
