// The whole default suite: format and lint, types, tests. Plain JavaScript: it runs before anything is installed.
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureInstalled, pinnedNode } from './install.mjs';

await ensureInstalled('develop');

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const run = (script, ...args) =>
  spawnSync(pinnedNode, [join(root, 'node_modules', script), ...args], { cwd: root, stdio: 'inherit' }).status === 0;

const checks = [
  ['biome', () => run('@biomejs/biome/bin/biome', 'check', '--error-on-warnings')],
  ['tsc', () => run('typescript/bin/tsc', '--noEmit')],
  ['tsc of the console', () => run('typescript/bin/tsc', '--noEmit', '-p', 'packages/console')],
];
const broken = checks.filter(([, check]) => !check()).map(([name]) => name);
// Tests run last, so that their count is the last line.
const passed = run('vitest/vitest.mjs', 'run', ...process.argv.slice(2));
if (broken.length > 0) {
  process.stdout.write(`failed before the tests: ${broken.join(', ')} (see above)\n`);
  process.exitCode = 1;
}
if (!passed) process.exitCode = 1;
