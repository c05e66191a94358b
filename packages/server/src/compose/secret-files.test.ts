import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, it } from 'vitest';
import { SecretFiles } from './secret-files.ts';

const directory = mkdtempSync(join(tmpdir(), 'baobab-secrets-'));
afterAll(() => rmSync(directory, { recursive: true }));
const file = join(directory, 'counters');
const FIRST = 'redis://:first-password@127.0.0.1';
const SECOND = 'redis://:second-password@127.0.0.1';

let lines: [level: string, facts: object, text: string][];
let known: string[];
let secrets: SecretFiles;
const log = (level: string) => (facts: object, text: string) => void lines.push([level, facts, text]);
const hold = () => secrets.hold({ key: 'counters', value: FIRST, file });

beforeEach(() => {
  lines = [];
  known = [];
  const logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') };
  secrets = new SecretFiles({ known: { add: (more) => known.push(...more) }, logger });
  writeFileSync(file, FIRST);
});

it('gives every user of a file the new secret, hides it from the log and says that it has changed', () => {
  const [one, other] = [hold(), hold()];
  expect(one?.reread()).toBe(FIRST);
  expect(lines).toEqual([]);
  writeFileSync(file, `${SECOND}\n`);
  expect(other?.value).toBe(FIRST);
  expect(one?.reread()).toBe(SECOND);
  expect(other?.value).toBe(SECOND);
  expect(known).toEqual([SECOND, 'second-password']);
  expect(lines).toEqual([['info', { setting: 'counters_file', file }, 'a secret was replaced, using the new one']]);
});

it.each([
  ['', `the file ${file} is empty`],
  ['postgres://127.0.0.1', `the content of ${file} must be an address such as redis://:password@127.0.0.1:6379 or`],
  [`${SECOND}\n${FIRST}`, `the file ${file} has more than one line`],
  [undefined, `cannot read ${file}: there is no such file or folder`],
])('keeps the old one while the file has %j, and says so once', async (content, problem) => {
  const secret = hold();
  if (content === undefined) rmSync(file);
  else writeFileSync(file, content);
  expect([secret?.reread(), secret?.reread()]).toEqual([FIRST, FIRST]);
  const told = [
    'error',
    { setting: 'counters_file', file, problem: expect.stringContaining(problem) },
    'failed to read a secret again, using the old one',
  ];
  expect(lines).toEqual([told]);
  // Whoever sends the signal wants to know.
  await secrets.rereadAll();
  expect(lines).toEqual([told, told, ['info', {}, 'read the secrets again']]);
  writeFileSync(file, SECOND);
  await secrets.rereadAll();
  expect(secret?.value).toBe(SECOND);
});

it('reads no file that nothing uses any more, and none for a secret that is in the configuration itself', async () => {
  const [one, other] = [hold(), hold()];
  one?.[Symbol.dispose]();
  other?.[Symbol.dispose]();
  rmSync(file);
  await secrets.rereadAll();
  expect(lines).toEqual([['info', {}, 'read the secrets again']]);
  expect(secrets.hold({ key: 'counters', value: FIRST, file: undefined })?.reread()).toBe(FIRST);
  expect(secrets.hold({ key: 'counters', value: undefined, file: undefined })).toBeUndefined();
});

it('asks other sources too, and goes on after one that fails', async () => {
  secrets.add({ name: 'one', refresh: () => Promise.reject(new Error('no profile')) });
  secrets.add({ name: 'two', refresh: async () => true });
  secrets.add({ name: 'three', refresh: async () => false });
  await secrets.rereadAll();
  expect(lines).toEqual([
    ['error', { secret: 'one', problem: 'no profile' }, 'failed to read a secret again, using the old one'],
    ['info', { secret: 'two' }, 'a secret was replaced, using the new one'],
    ['info', {}, 'read the secrets again'],
  ]);
});
