import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { connectChecked, type ServerFacts, unsuitable } from './connections.ts';

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

/** A message of the server: type, length and content. */
function message(type: string, content: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(content.length + 4, 1);
  return Buffer.concat([head, content]);
}

const READY = message('Z', Buffer.from('I'));
const REFUSED = message('E', Buffer.from('SERROR\0C42501\0Mpermission denied for function pg_is_in_recovery\0\0'));

it('closes the connection to a server that does not pass the check', async () => {
  await using server = createServer((socket: Socket) => {
    // The first message of a client has no type. It is accepted without a password, and all queries fail.
    socket.once('data', () => {
      socket.write(Buffer.concat([message('R', Buffer.alloc(4)), READY]));
      socket.on('data', ([type]) => {
        if (String.fromCharCode(type as number) === 'Q') socket.write(Buffer.concat([REFUSED, READY]));
      });
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connected = once(server, 'connection');
  const { port } = server.address() as AddressInfo;
  await expect(connectChecked(`postgres://baobab@127.0.0.1:${port}/store`)).rejects.toThrow('permission denied');
  const [socket] = (await connected) as [Socket];
  if (!socket.closed) await once(socket, 'close');
});
