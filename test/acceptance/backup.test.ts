import { mkdir, mkdtempDisposable, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { baobab, baobabJson } from './command.ts';
import { type RunningServer, startServer } from './start-server.ts';

const MODEL = 'baobab/embed-multilingual';

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

async function embed(server: RunningServer, key: string): Promise<number> {
  const answer = await fetch(`${server.address}/v1/embeddings`, {
    method: 'POST',
    headers: { ...bearer(key), 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, input: 'Habari ya asubuhi' }),
  });
  await answer.arrayBuffer();
  return answer.status;
}

async function upload(server: RunningServer, key: string, text: string): Promise<string> {
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', new Blob([text]), 'lines.jsonl');
  const answer = await fetch(`${server.address}/v1/files`, { method: 'POST', headers: bearer(key), body: form });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { id: string }).id;
}

async function billedRequests(server: RunningServer, key: string): Promise<number> {
  const answer = await fetch(`${server.address}/v1/usage?start=2026-01-01`, { headers: bearer(key) });
  const { totals } = (await answer.json()) as { totals: { requests: number } };
  return totals.requests;
}

describe('baobab backup and restore', () => {
  it('copy a running server with everything it had acknowledged before', async () => {
    await using scratch = await mkdtempDisposable(join(tmpdir(), 'baobab-backup-'));
    const folder = join(scratch.path, 'copy');
    await using server = await startServer({});
    const { secret } = await baobabJson<{ secret: string }>(server.dataDir, ['keys', 'create', 'of a team']);
    const text = '{"custom_id":"1"}\n'.repeat(5_000);
    const file = await upload(server, secret, text);
    for (let sent = 0; sent < 20; sent += 1) expect(await embed(server, secret)).toBe(200);

    let running = true;
    const load = (async () => {
      let sent = 0;
      for (; running; sent += 1) expect(await embed(server, secret)).toBe(200);
      return sent;
    })();
    const backup = await baobab(server.dataDir, ['backup', folder]);
    running = false;
    const meanwhile = await load;
    expect(backup).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('backed up') });
    expect(backup.stdout).toMatch(/\d+ files, .* ledger rows of \$/);

    const again = await baobab(server.dataDir, ['backup', folder]);
    expect(again).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('is not empty') });
    const impossible = await baobab(server.dataDir, ['backup', '/dev/null/backup']);
    expect(impossible).toMatchObject({
      exitCode: 1,
      stderr: 'baobab: /dev/null/backup cannot be created: a part of the path is not a folder; name another folder\n',
    });

    const dataDir = join(scratch.path, 'restored');
    // An interrupted restore leaves a half-copied file behind.
    await mkdir(dataDir);
    await writeFile(join(dataDir, 'baobab.sqlite.partial'), 'half');
    const restored = await baobab(scratch.path, ['restore', folder, '--data-dir', dataDir]);
    expect(restored).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('restored') });
    const twice = await baobab(scratch.path, ['restore', folder, '--data-dir', dataDir]);
    expect(twice).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('has a database already') });

    await using other = await startServer({ dataDir });
    const billed = await billedRequests(other, secret);
    expect(billed).toBeGreaterThanOrEqual(20);
    expect(billed).toBeLessThanOrEqual(20 + meanwhile);
    const content = await fetch(`${other.address}/v1/files/${file}/content`, { headers: bearer(secret) });
    expect(await content.text()).toBe(text);
  });

  it('refuse an unfinished, a changed and a missing backup, and a directory with a running server', async () => {
    await using scratch = await mkdtempDisposable(join(tmpdir(), 'baobab-backup-'));
    const folder = join(scratch.path, 'copy');
    await using server = await startServer({});
    expect(await baobab(server.dataDir, ['restore', scratch.path])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('not a finished backup'),
    });
    expect((await baobab(server.dataDir, ['backup', folder])).exitCode).toBe(0);
    // Stopping the server would not help.
    expect(await baobab(server.dataDir, ['restore', folder])).toMatchObject({
      exitCode: 1,
      stderr: `baobab: ${server.dataDir} has a database already, and restoring never replaces one; name an empty or new directory with --data-dir\n`,
    });
    await writeFile(join(folder, 'baobab.sqlite'), 'x', { flag: 'a' });
    expect(await baobab(scratch.path, ['restore', folder])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('changed or damaged'),
    });
    await rm(join(folder, 'backup.json'));
    expect((await baobab(scratch.path, ['restore', folder])).exitCode).toBe(1);
    expect(await baobab(scratch.path, ['backup', folder])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('there is no store'),
    });
  });
});
