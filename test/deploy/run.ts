/**
 * Runs what deploy/ ships with the real tools: `npm run test:deploy [-- name…]`. Each file of checks/ is about one subject, and names choose files or
 * checks. What needs a tool that is not here and cannot be had is skipped, with the reason.
 */
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Check, Skipped } from './check.ts';

const CHECKS = join(import.meta.dirname, 'checks');
const wanted = process.argv.slice(2).map((name) => name.toLowerCase());
const counts = { passed: 0, failed: 0, skipped: 0 };
const say = (line: string): void => void process.stdout.write(`${line}\n`);

async function tried({ name, run }: Check): Promise<void> {
  const startedAt = performance.now();
  try {
    const found = await run();
    counts.passed += 1;
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    say(`passed   ${name}${found === undefined ? '' : `: ${found}`} (${seconds} s)`);
  } catch (error) {
    if (error instanceof Skipped) {
      counts.skipped += 1;
      say(`skipped  ${name}: ${error.message}`);
    } else {
      counts.failed += 1;
      say(`FAILED   ${name}: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
    }
  }
}

for (const file of globSync('*.ts', { cwd: CHECKS }).toSorted()) {
  const subject = basename(file, '.ts');
  const { checks } = (await import(join(CHECKS, file))) as { checks: readonly Check[] };
  const isWanted = (name: string) =>
    wanted.length === 0 || wanted.some((part) => `${subject} ${name}`.toLowerCase().includes(part));
  for (const check of checks.filter(({ name }) => isWanted(name))) await tried(check);
}
say(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
process.exitCode = counts.failed === 0 && counts.passed + counts.skipped > 0 ? 0 : 1;
