import { expect, it } from 'vitest';
import { type ServerFacts, unsuitable } from './connections.ts';

const address = { host: 'db', port: 5432, user: 'baobab', database: 'store' };
const facts: ServerFacts = {
  version: 140_000,
  version_name: '14.0',
  encoding: 'UTF8',
  is_standby: false,
  synchronous_commit: 'on',
};

it.each<[Partial<ServerFacts>, string]>([
  [{ version: 130_014, version_name: '13.14' }, 'PostgreSQL 14 or later is needed; this is 13.14.'],
  [{ is_standby: true }, 'This PostgreSQL server is a standby'],
  [{ encoding: 'SQL_ASCII' }, "The database 'store' has the encoding SQL_ASCII."],
  [{ synchronous_commit: 'off' }, 'alter role "baobab" set synchronous_commit = on'],
])('refuses a server with %j', (changes, reason) => {
  expect(unsuitable({ ...facts, ...changes }, address)).toContain(reason);
});

it('accepts a server that makes every commit durable', () => {
  for (const synchronous_commit of ['on', 'local', 'remote_write', 'remote_apply']) {
    expect(unsuitable({ ...facts, synchronous_commit }, address)).toBeUndefined();
  }
});
