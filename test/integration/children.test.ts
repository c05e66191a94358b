import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { noNewPrivileges } from '../../packages/core/src/sandbox/privileges.ts';
import { until } from '../fixtures/engine-bed.ts';

const OWNER = fileURLToPath(new URL('../fixtures/child-owner.ts', import.meta.url));
const PARENT_DEATH_SIGNAL = noNewPrivileges().includes('--pdeathsig');

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function childOfKilledServer(kind: string): Promise<number> {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'baobab-children-'));
  const server = spawn(process.execPath, [OWNER, kind, folder.path], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    // The first line may be of `setpriv` being tried, which has ended.
    let pid = 0;
    for await (const line of server.stdout.setEncoding('utf8')) {
      pid = Number(String(line).trim().split('\n').at(-1));
      if (alive(pid)) break;
    }
    expect(alive(pid)).toBe(true);
    return pid;
  } finally {
    const exited = once(server, 'exit');
    server.kill('SIGKILL');
    await exited;
  }
}

it('ends a self-test with the server that is killed', async () => {
  const pid = await childOfKilledServer('self-test');
  await until(() => !alive(pid));
});

it.runIf(PARENT_DEATH_SIGNAL)('ends a reader of a PDF with the server that is killed', async () => {
  const pid = await childOfKilledServer('pdf');
  await until(() => !alive(pid));
});
