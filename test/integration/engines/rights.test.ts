import { existsSync, writeFileSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { engineBed } from '../../fixtures/engine-bed.ts';

it('lets an engine process neither read the data directory, nor write, nor start programs', async () => {
  await using dataDirectory = await mkdtempDisposable(join(tmpdir(), 'baobab-data-'));
  const [secret, mark] = [join(dataDirectory.path, 'baobab.sqlite'), join(dataDirectory.path, 'mark')];
  writeFileSync(secret, 'keys of all accounts');
  await using bed = engineBed({ processes: 1 });
  const denied = { message: expect.stringMatching(/Access to this API has been restricted|ERR_ACCESS_DENIED/) };
  await expect(bed.embed([`read:${secret}`])).rejects.toMatchObject(denied);
  await expect(bed.embed([`write:${mark}`])).rejects.toMatchObject(denied);
  await expect(bed.embed([`start:${process.execPath}`])).rejects.toMatchObject(denied);
  expect(existsSync(mark)).toBe(false);
  expect(await bed.embed(['it works on'])).toMatchObject({ tokens: [11] });
});

it('leaves an engine process its rights where the setting says so', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-data-'));
  const file = join(directory.path, 'file');
  writeFileSync(file, '');
  await using bed = engineBed({ processes: 1, settings: { permissionModel: false } });
  expect(await bed.embed([`read:${file}`])).toMatchObject({ dimensions: 384 });
});
