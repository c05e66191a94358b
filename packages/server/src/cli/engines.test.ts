import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
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

/** A program that writes how it was called, and then does as `body` says. */
async function fakeProgram(name: string, body: string): Promise<void> {
  const script = `#!/bin/sh\necho "${name} $*" >> ${join(directory, 'calls')}\n${body}\n`;
  await writeFile(join(directory, name), script, { mode: 0o755 });
}

it('builds from the source that is installed, and keeps the program only', async () => {
  await fakeProgram('git', ':');
  await fakeProgram(
    'cmake',
    'if [ "$1" = --build ]; then mkdir -p "$2/bin" && echo program > "$2/bin/llama-server"; fi',
  );
  const { printed } = await run(['build', 'llama-server', '--backend', 'cuda'], { PATH: `${directory}:/usr/bin:/bin` });
  const folder = join(directory, 'data', 'engines');
  expect(printed).toBe(`Built ${join(folder, 'llama-server')}`);
  expect(await readdir(folder)).toEqual(['llama-server']);
  const calls = (await readFile(join(directory, 'calls'), 'utf8')).trim().split('\n');
  expect(calls).toEqual([
    expect.stringMatching(/^git .*clone .*gitRelease\.bundle /),
    expect.stringMatching(/^cmake -S .* -DLLAMA_BUILD_UI=OFF .*-DGGML_CUDA=ON$/),
    expect.stringMatching(/^cmake --build .* --target llama-server$/),
  ]);
});

it('leaves nothing behind when a step fails', async () => {
  await fakeProgram('cmake', 'exit 1');
  const failing = run(['build', 'llama-server'], { PATH: `${directory}:/usr/bin:/bin` });
  await expect(failing).rejects.toThrow(
    'the build failed; its output says why. It needs a C++ compiler, cmake and git',
  );
  expect(await readdir(join(directory, 'data', 'engines'))).toEqual(['llama-server']);
});

it('says what a build needs that cannot begin', async () => {
  await expect(run(['build', 'llama-server'], { PATH: '/nowhere' })).rejects.toThrow(
    /the build failed: .*git.*It needs a C\+\+ compiler, cmake and git/,
  );
});
