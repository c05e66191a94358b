import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Check } from '../check.ts';
import { installed, run, succeed } from '../tools.ts';

const UNIT = join(import.meta.dirname, '../../../deploy/systemd/baobab.service');
/** Of 10, in tenths; "OK" begins at 20 from below. */
const MOST_EXPOSURE = 20;

export const checks: readonly Check[] = [
  {
    name: 'systemd reads the unit without a complaint',
    async run() {
      const { code, stdout, stderr } = await run(installed('systemd-analyze', 'systemd'), ['verify', UNIT]);
      assert.equal(`${stdout}${stderr}`.trim(), '');
      assert.equal(code, 0);
      return undefined;
    },
  },
  {
    name: 'the unit exposes little',
    async run() {
      const analyze = installed('systemd-analyze', 'systemd');
      const args = ['security', '--no-pager', '--offline=true', `--threshold=${MOST_EXPOSURE}`];
      const report = await succeed(analyze, [...args, UNIT]);
      // The threshold is kept: a unit without protection fails.
      const folder = await mkdtemp(join(tmpdir(), 'baobab-unit-'));
      try {
        const bare = join(folder, 'baobab.service');
        await writeFile(
          bare,
          (await readFile(UNIT, 'utf8')).replace(/^(Protect|Restrict|SystemCall|Private).*\n/gm, ''),
        );
        assert.notEqual((await run(analyze, [...args, bare])).code, 0);
      } finally {
        await rm(folder, { recursive: true });
      }
      return `exposure ${/exposure level for .*?: ([\d.]+)/.exec(report)?.[1]} of 10`;
    },
  },
];
