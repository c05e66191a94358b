import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { gpuCommand } from './gpu.ts';
import { runCommand } from './testing/run-command.ts';

const directory = await mkdtemp(join(tmpdir(), 'baobab-gpu-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

const run = (...args: string[]) =>
  runCommand(gpuCommand, {
    args,
    dataDir: join(directory, 'absent'),
    env: { BAOBAB_ENGINES_LLAMA_GPU: 'off', HOME: directory },
  });

it('gpu test fails where no backend works, and creates nothing', async () => {
  await expect(run('test')).rejects.toThrow('no GPU backend works on this machine');
  expect(existsSync(join(directory, 'absent'))).toBe(false);
});

it('gpu build refuses an unknown backend before it builds anything', async () => {
  await expect(run('build', '--backend', 'rocm')).rejects.toThrow(
    "--backend must be one of cuda, vulkan, metal, not 'rocm'",
  );
});

it('gpu knows no other action', async () => {
  await expect(run('burn')).rejects.toThrow();
});
