/**
 * Replaces three replicas behind haproxy, one after another, under load. No request may fail.
 *
 *   npm run rolling-upgrade -- [--rounds 2] [--from <commit>]
 *
 * With `--from`, the replicas run the code of that commit first. It uses the installed packages.
 */
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { clusterMissing } from './cluster/cluster.ts';
import { runRollingUpgrade } from './rolling-upgrade.ts';

const ROOT = join(import.meta.dirname, '../..');
const { values } = parseArgs({ options: { rounds: { type: 'string', default: '2' }, from: { type: 'string' } } });

if (clusterMissing !== undefined) {
  console.error(`The rolling upgrade cannot run: ${clusterMissing}`);
  process.exit(2);
}

function git(...args: string[]): void {
  const { status, stderr } = spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' });
  if (status !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`);
}

/** A checkout of the commit. */
async function checkOut(commit: string): Promise<string> {
  const directory = join(await mkdtemp(join(tmpdir(), 'baobab-earlier-')), 'code');
  git('worktree', 'add', '--detach', directory, commit);
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  return directory;
}

const earlier = values.from === undefined ? undefined : await checkOut(values.from);
try {
  const { findings, summary } = await runRollingUpgrade({
    from: earlier,
    rounds: Number(values.rounds),
    print: console.log,
  });
  for (const finding of findings.slice(0, 40)) console.log(`FINDING ${finding}`);
  console.log(`${findings.length === 0 ? 'PASSED' : 'FAILED'}: ${summary}`);
  process.exitCode = findings.length === 0 ? 0 : 1;
} finally {
  if (earlier !== undefined) {
    await rm(join(earlier, 'node_modules'));
    git('worktree', 'remove', '--force', earlier);
  }
}
process.exit();
