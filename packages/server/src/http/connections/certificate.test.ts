import { once } from 'node:events';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, createServer } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readCertificate, watchCertificate } from './certificate.ts';

const FIXTURES = join(import.meta.dirname, '../../../../../test/fixtures/tls');
let directory: string;
const files = () => ({ cert: join(directory, 'tls.crt'), key: join(directory, 'tls.key') });
const install = async (name: string) => {
  await copyFile(join(FIXTURES, `${name}.crt`), files().cert);
  await copyFile(join(FIXTURES, `${name}.key`), files().key);
};

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'baobab-tls-'));
  await install('first');
});
afterEach(() => rm(directory, { recursive: true }));

async function nameOf(port: number): Promise<string | string[] | undefined> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const { subject } = socket.getPeerCertificate();
  socket.destroy();
  return subject.CN;
}

describe('watchCertificate', () => {
  it('uses a new certificate for new connections and leaves open ones alone', async () => {
    const lines: string[] = [];
    const log = (_facts: object, text: string) => lines.push(text);
    const server = createServer(await readCertificate(files()), (socket) => socket.pipe(socket));
    const watch = watchCertificate(server, { files: files(), logger: { info: log, error: log }, checkIntervalMs: 20 });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const open = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
    await once(open, 'secureConnect');
    expect(await nameOf(port)).toBe('baobab test first');

    await writeFile(files().cert, 'no certificate');
    await expect.poll(() => lines[0]).toBe('failed to load the new TLS certificate, using the old one');
    expect(await nameOf(port)).toBe('baobab test first');

    await install('second');
    await expect.poll(() => nameOf(port)).toBe('baobab test second');
    expect(lines.at(-1)).toBe('loaded the new TLS certificate');
    open.write('still here');
    expect(String((await once(open, 'data'))[0])).toBe('still here');

    watch.stop();
    open.destroy();
    server.close();
  });
});

describe('readCertificate', () => {
  it('refuses a key of another certificate', async () => {
    await copyFile(join(FIXTURES, 'second.key'), files().key);
    await expect(readCertificate(files())).rejects.toThrow(/key values mismatch/);
  });
});
