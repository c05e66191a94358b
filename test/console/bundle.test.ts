import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { buildConsole } from '../../packages/console/src/build.ts';

const MOST_COMPRESSED_BYTES = 250_000;
const MOST_BYTES_AT_FIRST = 60_000;

const folder = await mkdtemp(join(tmpdir(), 'baobab-console-'));
const files = await buildConsole(folder);
afterAll(() => rm(folder, { recursive: true, force: true }));

it('is under 250 kB compressed in all', () => {
  expect(files.reduce((sum, { gzipBytes }) => sum + gzipBytes, 0)).toBeLessThan(MOST_COMPRESSED_BYTES);
});

it('loads little before the first page', async () => {
  const page = await readFile(join(folder, 'index.html'), 'utf8');
  const first = files.filter(({ path }) => path === 'index.html' || page.includes(path));
  expect(first.length).toBeGreaterThan(2);
  expect(first.reduce((sum, { gzipBytes }) => sum + gzipBytes, 0)).toBeLessThan(MOST_BYTES_AT_FIRST);
});

it('has no inline code or style and asks no other server', async () => {
  const page = await readFile(join(folder, 'index.html'), 'utf8');
  expect(page).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)/);
  expect([...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address)).toSatisfy((all: string[]) =>
    all.every((address) => address.startsWith('/console/assets/') || address.startsWith('data:')),
  );
});

it('names every asset by its content', () => {
  const assets = files.filter(({ path }) => path !== 'index.html');
  expect(assets.map(({ path }) => path)).toSatisfy((paths: string[]) =>
    paths.every((path) => /^assets\/[\w-]+-[A-Z0-9]{8}\.(js|css)$/.test(path)),
  );
});
