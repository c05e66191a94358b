import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, cpSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeBundle } from '../../../scripts/release/bundle.ts';
import type { Cpu } from '../../../scripts/release/debian.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { type Check, onlyOnDemand } from '../check.ts';
import { installed, run, succeed } from '../tools.ts';

const ROOT = join(import.meta.dirname, '../../..');
const USER = join(import.meta.dirname, '../programs/offline-user.mjs');
/** `nobody`, where this runs as root. */
const ORDINARY = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

export const checks: readonly Check[] = [
  {
    name: 'the offline bundle installs and answers a first vector without a network, as an ordinary user',
    async run() {
      onlyOnDemand();
      const unshare = installed('unshare', 'util-linux');
      const folder = mkdtempSync(join(tmpdir(), 'baobab-bundle-'));
      try {
        const home = join(folder, 'home');
        for (const path of [folder, home]) {
          mkdirSync(path, { recursive: true });
          chmodSync(path, 0o755);
          if (ORDINARY.uid !== undefined) chownSync(path, ORDINARY.uid, ORDINARY.gid);
        }
        const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim();
        const cpu = process.arch as Cpu;
        const file = await writeBundle({ cpu, out: folder, commit, models: ['embed-multilingual'] });
        await succeed('tar', ['-xzf', join(folder, file), '-C', home, '--strip-components=1'], ORDINARY);
        const options = { ...ORDINARY, cwd: home, env: { HOME: home, PATH: '/usr/bin:/bin:/usr/sbin:/sbin' } };
        // A network of its own, in which there is only the machine itself.
        const isolated = (...args: string[]) =>
          run(
            unshare,
            ['--map-root-user', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh', ...args],
            options,
          );
        const install = await isolated('./install.sh', '--prefix', join(home, 'installed'));
        assert.equal(install.code, 0, install.stdout + install.stderr);
        assert.match(install.stdout, /^Installed .* with the Node of .*\/installed\/lib\/baobab\/node\/bin\/node$/m);
        const node = join(home, 'installed/lib/baobab/node/bin/node');
        const program = join(home, 'installed/bin/baobab');
        // The user cannot read this checkout.
        cpSync(USER, join(home, 'user.mjs'));
        const use = await isolated(node, 'user.mjs', program, `${await freePort()}`);
        assert.equal(use.code, 0, use.stderr);
        assert.deepEqual(JSON.parse(use.stdout), { outside: 'ENETUNREACH', dimensions: 384, code: 0 }, use.stderr);
        return `${Math.round(statSync(join(folder, file)).size / 1e6)} MB`;
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
  },
];
