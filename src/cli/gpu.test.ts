import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { loadConfig } from '../config/load.ts';
import { gpuCommand } from './gpu.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'baobab-gpu-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

async function run(...args: string[]): Promise<string[]> {
  const env = { BAOBAB_DATA_DIR: join(directory, 'absent'), BAOBAB_ENGINES_LLAMA_GPU: 'off', HOME: directory };
  const { config, rest } = loadConfig({ args, env, workingDirectory: directory });
  const printed: string[] = [];
  const print = (text: string) => void printed.push(text);
  await gpuCommand.run({ args: rest, config, configFile: undefined, locate: () => '', env, print });
  return printed;
}

it('gpu test fails where no backend works, and creates nothing', async () => {
  await expect(run('test')).rejects.toThrow('no GPU backend works on this machine');
  expect(existsSync(join(directory, 'absent'))).toBe(false);
});

it('gpu knows no other action', async () => {
  await expect(run('burn')).rejects.toThrow();
});
