import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { mountSmallDisk, smallDiskMissing } from '../fixtures/small-disk.ts';
import { baobab, baobabJson } from './command.ts';
import { type RunningServer, startServer } from './start-server.ts';

const MB = 1_048_576;

const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });

async function call(server: RunningServer, path: string, init: RequestInit = {}) {
  const answer = await fetch(`${server.address}${path}`, { headers: bearer(server.apiKey), ...init });
  return { status: answer.status, text: await answer.text() };
}

function upload(server: RunningServer, bytes: number) {
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', new Blob([new Uint8Array(bytes)]), 'x.jsonl');
  return call(server, '/v1/files', { method: 'POST', body: form });
}

describe('a disk that runs full', () => {
  it('below the reserve is not ready, refuses uploads and shows its free space', async () => {
    await using server = await startServer({ env: { BAOBAB_DISK_RESERVE_BYTES: `${2 ** 52}` } });
    const ready = await call(server, '/readyz');
    expect(ready.status).toBe(503);
    expect(ready.text).toContain('less than the reserve of 4503599627370496');
    const refused = await upload(server, 10);
    expect(refused.status).toBe(429);
    expect(JSON.parse(refused.text)).toMatchObject({
      error: { code: 'capacity_exceeded', message: expect.stringContaining('low on disk space') },
    });
    const { text } = await call(server, '/metrics');
    expect(text).toMatch(/^baobab_disk_free_bytes [1-9]\d*/m);
    expect(text).toContain('baobab_disk_reserve_bytes 4503599627370496');
    expect((await call(server, '/v1/models')).status).toBe(200);
  });

  it.skipIf(smallDiskMissing !== undefined)(
    'stops at the reserve, and keys can be revoked when nothing is left',
    async () => {
      using disk = mountSmallDisk(96);
      const env = { BAOBAB_DISK_RESERVE_BYTES: `${24 * MB}` };
      await using server = await startServer({ dataDir: disk.directory, env });
      const keys = await Promise.all(
        ['one', 'two'].map((name) =>
          baobabJson<{ id: string; secret: string }>(disk.directory, ['keys', 'create', name]),
        ),
      );
      const [overHttp, byCommand] = keys as [{ id: string; secret: string }, { id: string; secret: string }];
      expect((await call(server, '/readyz')).status).toBe(200);

      const uploads = [];
      for (let tried = 0; tried < 12; tried += 1) uploads.push((await upload(server, 10 * MB)).status);
      expect(uploads[0]).toBe(200);
      expect(uploads.at(-1)).toBe(429);
      disk.fill();
      await expect.poll(async () => (await call(server, '/readyz')).status).toBe(503);
      const revoked = await call(server, `/v1/admin/keys/${overHttp.id}/revoke`, { method: 'POST' });
      expect([revoked.status, revoked.text]).toEqual([200, expect.stringContaining('revoked_at')]);
      expect((await call(server, '/v1/models', { headers: bearer(overHttp.secret) })).status).toBe(403);
      disk.fill();
      const command = await baobab(disk.directory, ['keys', 'revoke', byCommand.id]);
      expect(command).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`revoked ${byCommand.id}`) });
      await expect
        .poll(async () => (await call(server, '/v1/models', { headers: bearer(byCommand.secret) })).status)
        .toBe(403);

      disk.free();
      const { data } = JSON.parse((await call(server, '/v1/files')).text) as { data: { id: string }[] };
      for (const { id } of data) await call(server, `/v1/files/${id}`, { method: 'DELETE' });
      await expect.poll(async () => (await call(server, '/readyz')).status).toBe(200);
      expect((await upload(server, MB)).status).toBe(200);
    },
  );

  it.skipIf(smallDiskMissing !== undefined)('after a kill says at the start what to do, and then goes on', async () => {
    using disk = mountSmallDisk(64);
    const first = await startServer({ dataDir: disk.directory });
    const { id } = await baobabJson<{ id: string }>(disk.directory, ['keys', 'create', 'kept']);
    await first.kill();
    // Gone since an earlier write on the full disk.
    for (const name of ['baobab.sqlite-reserve', 'baobab.sqlite-ledger-0', 'baobab.sqlite-ledger-1', 'server.pid']) {
      await rm(join(disk.directory, name), { force: true });
    }
    disk.fill();
    for (const args of [
      ['serve', '--port', '0'],
      ['serve', '--port', '0', '--data-dir', join(disk.directory, 'new')],
    ]) {
      const { exitCode, stderr } = await baobab(disk.directory, args);
      expect(exitCode).toBe(1);
      expect(stderr).toContain(
        `There is no space left on the disk of the data directory ${args.at(4) ?? disk.directory}`,
      );
      expect(stderr).toContain('Free at least 32 MB on that disk, or move the directory');
      expect(stderr).not.toContain('    at ');
    }
    disk.free();
    await using again = await startServer({ dataDir: disk.directory });
    expect((await call(again, '/v1/models')).status).toBe(200);
    const keys = await baobabJson<{ id: string }[]>(disk.directory, ['keys', 'list']);
    expect(JSON.stringify(keys)).toContain(id);
  });
});
