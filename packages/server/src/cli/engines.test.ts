import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { enginesCommand } from './engines.ts';
import { runCommand } from './testing/run-command.ts';

const directory = await mkdtemp(join(tmpdir(), 'baobab-programs-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

const run = (args: readonly string[], env = {}) =>
  runCommand(enginesCommand, { args, dataDir: join(directory, 'data'), env: { HOME: directory, ...env } });

it('builds only what it knows, for backends that it knows', async () => {
  await expect(run(['build', 'vllm'])).rejects.toThrow("only llama-server can be built, not 'vllm'");
  await expect(run(['build', 'llama-server', '--backend', 'rocm'])).rejects.toThrow(
    "--backend must be one of cpu, cuda, vulkan, metal, not 'rocm'",
  );
  expect(existsSync(join(directory, 'data'))).toBe(false);
});

it('says what a build needs that cannot begin, and leaves nothing behind', async () => {
  await expect(run(['build', 'llama-server'], { PATH: '/nowhere' })).rejects.toThrow(
    /the build failed: .*git.*It needs a C\+\+ compiler, cmake and git/,
  );
  expect(existsSync(join(directory, 'data', 'engines', 'llama-server'))).toBe(false);
});
