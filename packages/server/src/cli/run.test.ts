import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../config/load.ts';
import { COMMANDS } from './index.ts';
import { serveCommand } from './serve.ts';

const MAIN = join(import.meta.dirname, '../main.ts');

const run = async (...args: string[]) => {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  return { stdout, stderr, code };
};

describe('the help', () => {
  it('of a command names its forms and options, in lines that fit a terminal', async () => {
    const { stdout, code } = await run('keys', '--help');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ {2}baobab keys create <name> \[options\] {2,}create a key/m);
    expect(stdout).toMatch(/^ {2}--monthly-budget USD {2,}spend in a calendar month/m);
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100);
    expect((await run('help', 'keys')).stdout).toBe(stdout);
  });

  it.each(Object.keys(COMMANDS))('of %s fits a terminal', async (name) => {
    const { forms, options = [] } = (await COMMANDS[name]?.load()) ?? { forms: [] };
    expect(forms.length).toBeGreaterThan(0);
    for (const [typed] of [...forms, ...options]) expect(typed.length).toBeLessThan(50);
  });
});

it.each([
  [['kyes', 'list'], "baobab: unknown command 'kyes'; did you mean 'keys'?\n'baobab help' lists the commands\n"],
  [['dance'], "baobab: unknown command 'dance'\n'baobab help' lists the commands\n"],
])('%j is answered with the command that was meant', async (args, message) => {
  expect(await run(...args)).toEqual({ stdout: '', stderr: message, code: 2 });
});

it('gives a command its own options, although a setting has the same name', async () => {
  const own = await Promise.all(
    Object.entries(COMMANDS).map(async ([name, { load }]) => [name, (await load()).commandFlags ?? []] as const),
  );
  expect(own.filter(([, flags]) => flags.length > 0)).toEqual([['accounts', ['--aliases']]]);
  const flags = { args: ['update', 'team', '--aliases', 'a=b/c'], env: {}, workingDirectory: tmpdir() };
  const { rest, config } = loadConfig({ ...flags, commandFlags: ['--aliases'] });
  expect(rest).toEqual(flags.args);
  expect(config.aliases).toEqual([]);
});

it('names the setting that was meant', async () => {
  const { config } = loadConfig({ args: [], env: {}, workingDirectory: tmpdir() });
  const context = { args: ['--prot', '80'], config, configFile: undefined, locate: () => '', env: {}, print: () => {} };
  await expect(serveCommand.run(context)).rejects.toThrow(
    "unknown setting '--prot'; did you mean --port? 'baobab config --settings' lists them",
  );
});

it('prints the version and its commit', async () => {
  const root = join(import.meta.dirname, '../../../..');
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  const { stdout, stderr, code } = await run('--version');
  expect([stderr, code]).toEqual(['', 0]);
  expect(stdout).toMatch(/^\S+( \([0-9a-f]{8}\))?\n$/);
  expect(stdout.trim().split(' ')[0]).toBe(version);
});

describe('a command', () => {
  it('names its options in the errors of services', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'baobab-cli-'));
    const { stderr, code } = await run(
      ...['accounts', 'create', 'team', '--store-prompts', 'yes', '--zero-retention', 'yes', '--data-dir', dataDir],
    );
    await rm(dataDir, { recursive: true, force: true });
    expect([stderr, code]).toEqual([
      "baobab: '--store-prompts' and '--zero-retention' exclude each other: turn one of them off.\n",
      1,
    ]);
  });

  it('ends quietly when its reader has closed the pipe', async () => {
    const child = spawn(process.execPath, [MAIN, 'help'], { stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.destroy();
    const [errors, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    expect([errors, code]).toEqual(['', 0]);
  });
});
