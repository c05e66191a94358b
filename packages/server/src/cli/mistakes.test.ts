import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { freePort } from '@baobab/core/runtime/free-port.ts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Command } from './command.ts';
import { COMMANDS } from './index.ts';
import { runCommand } from './run.ts';

let directory: string;
let busy: Server;
let awayPort: number;
beforeAll(async () => {
  awayPort = await freePort({ host: '127.0.0.1', port: 0 });
  directory = await mkdtemp(join(tmpdir(), 'baobab-mistakes-'));
  await writeFile(join(directory, 'file'), 'not a database '.repeat(100));
  await writeFile(join(directory, 'bad.yaml'), 'port: [1\n  x: {');
  await writeFile(join(directory, 'bad.json'), '{"port": 80,');
  await mkdir(join(directory, 'damaged'));
  await writeFile(join(directory, 'damaged', 'baobab.sqlite'), 'not a database '.repeat(100));
  busy = createServer().listen(0, '127.0.0.1');
  await once(busy, 'listening');
});
afterAll(async () => {
  busy.close();
  await rm(directory, { recursive: true, force: true });
});

async function run(args: readonly string[]): Promise<{ exitCode: number; stderr: string }> {
  const [stdout, stderr] = [new PassThrough().resume(), new PassThrough()];
  const env = {
    HOME: directory,
    BAOBAB_DATA_DIR: join(directory, 'data'),
    BAOBAB_MODELS_HF_ENDPOINT: `http://127.0.0.1:${awayPort}`,
    BAOBAB_LOG_LEVEL: 'silent',
  };
  const place = (arg: string) => arg.replace('@', `${directory}/`);
  const running = runCommand(args.map(place), { env, stdout, stderr, cwd: () => directory });
  const ended = running.finally(() => stderr.end());
  const [exitCode, printed] = await Promise.all([ended, text(stderr)]);
  return { exitCode, stderr: printed };
}

const CODES = [...Object.keys(constants.errno), 'ENOTFOUND', 'EAI_AGAIN'].join('|');
const RAW = new RegExp(String.raw`\b(${CODES})\b|getaddrinfo|errno|syscall|^ +at |\[object|undefined`, 'm');
const HINT = /--[a-z]|'baobab |\b(check|choose|name|run|use|did you mean|must|is it|back it up)\b/i;

/** What every mistake is answered with: in words, briefly, and with what to do. */
function expectPlain({ exitCode, stderr }: { exitCode: number; stderr: string }): void {
  expect([1, 2]).toContain(exitCode);
  expect(stderr).not.toMatch(RAW);
  expect(stderr).toMatch(HINT);
  expect(stderr.trim().split('\n').length).toBeLessThanOrEqual(2);
}

/** What to type for a place of a form. */
const PLACES: readonly [RegExp, string][] = [
  [/^<folder>/, '@none'],
  [/^<source>/, '@none.gguf'],
  [/^<slug>/, 'acme/none'],
  [/^</, 'nobody'],
  [/^YYYY-/, '2099-01-01'],
  [/^postgres:/, 'postgres://127.0.0.1:1/none'],
];

/** The words of a form, without what may be left out and without alternatives. */
const wordsOf = (form: string): string[] =>
  (form.replace(/\[[^\]]*\]/g, '').split('|')[0] ?? '').split(' ').filter((word) => word !== '');

/** `create <name> [options]` → `create nobody`. */
const typedAs = (form: string): string[] =>
  wordsOf(form).map((word) => PLACES.find(([place]) => place.test(word))?.[1] ?? word);

const commands = await Promise.all(
  Object.entries(COMMANDS).map(async ([name, { load }]) => [name, await load()] as [string, Command]),
);
const forms = commands.flatMap(([name, command]) =>
  command.forms.map(([form]) => ({ form: `${name} ${form}`.trimEnd(), command, args: [name, ...typedAs(form)] })),
);

describe.each(forms)('baobab $form', ({ form, command, args }) => {
  it.each([
    ['an unknown option', ['--nonsense']],
    ['too many arguments', ['surplus', 'more']],
    ['a wrong value of a setting', ['--port', 'http']],
    ['a configuration that is not there', ['--config', '@none.yaml']],
    ['a configuration that is a folder', ['--config', '@damaged']],
    ['a configuration that is no YAML', ['--config', '@bad.yaml']],
    ['a configuration that is no JSON', ['--config', '@bad.json']],
    ['a secret in a file that is not there', ['--store-file', '@none']],
    ['a secret in a folder', ['--store-file', '@damaged']],
  ])('explains %s', async (_, mistake) => {
    expectPlain(await run([...args, ...mistake]));
  });

  it.runIf(/ </.test(form.replace(/\[.*\]/, '')))('explains that an argument is missing', async () => {
    expectPlain(await run(wordsOf(form).filter((word) => /^[a-z-]+$/.test(word))));
  });

  const valued = (command.options ?? []).flatMap(([typed]) => /^(--[a-z-]+) /.exec(typed)?.[1] ?? []);
  it.runIf(valued.length > 0)('explains options without a value', async () => {
    for (const option of valued) expectPlain(await run([...args, option]));
  });

  // These work without a store, and build and test for minutes.
  it.skipIf(/^(gpu|engines|config)/.test(form))('explains what is wrong around it', async () => {
    const port = ['serve', '--port', `${(busy.address() as AddressInfo).port}`].slice(args[0] === 'serve' ? 1 : 3);
    const surroundings = [
      ['--data-dir', '@file'],
      ['--data-dir', '@file/below'],
      ['--data-dir', '/proc/none'],
      ['--data-dir', '@damaged'],
      ['--store', 'postgres://127.0.0.1:1/none'],
      ['--store', 'postgres://none.invalid/none'],
    ];
    for (const [flag = '', value = ''] of surroundings) {
      const flags = flag === '--store' ? ['--store-file', await secretFile(value)] : [flag, value];
      const result = await run([...args, ...port, ...flags]);
      // Lists of the catalog need neither.
      if (result.exitCode !== 0) expectPlain(result);
    }
  });
});

async function secretFile(value: string): Promise<string> {
  const file = join(directory, 'secret');
  await writeFile(file, value);
  return file;
}

it.each([
  [['acounts', 'list'], "did you mean 'accounts'?"],
  [['accounts'], 'an action is missing; use one of: create, list'],
  [['accounts', 'lst'], "unknown action 'lst'; did you mean 'list'? Use one of: create, list"],
  [['accounts', 'list', '--jsn'], "did you mean '--json'?"],
  [['models', 'pull', 'baai/bge-smal-en-v1.5'], "did you mean 'baai/bge-small-en-v1.5'?"],
  [['models', 'add', 'hf:none/none'], 'the connection was refused'],
  [['models', 'add', 'http://127.0.0.1:1/v1'], 'the connection was refused'],
  [['models', 'add', 'http://none.invalid/v1'], 'the host name could not be resolved'],
  [['models', 'add', 'http://127.0.0.1:1/v1', '--upstream-key-file', '@key'], 'there is no such file or folder'],
  [['serve', '--host', 'none.invalid', '--port', '0'], 'none.invalid is not an address of this machine'],
  [['serve', '--counters-file', '@file'], 'counters: must'],
  [['restore', '@damaged'], 'is not a finished backup'],
])('%j is explained', async (args, message) => {
  const result = await run(args);
  expect(result.stderr).toContain(message);
  expectPlain(result);
});

it('explains a port that is in use, and leaves no data directory', async () => {
  const { port } = busy.address() as AddressInfo;
  const result = await run(['serve', '--port', `${port}`, '--data-dir', '@new']);
  expect(existsSync(join(directory, 'new'))).toBe(false);
  expect(result.stderr).toContain(`port ${port} of 127.0.0.1 is in use; choose another one with --port`);
  expectPlain(result);
});
