import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { fill, growthOf } from '../../bench/growth/fill.ts';
import { residentMb } from '../../bench/measure.ts';
import { freePort } from '../fixtures/free-port.ts';
import { type RunningServer, startServer } from './start-server.ts';

const GROWTH = growthOf(0.02);
const MONTH = `start=${new Date(Date.now() - 31 * 86_400_000).toISOString()}`;
const EXPORT = `/v1/usage?${MONTH}&account=*&group_by=key,model&bucket=hour&format=csv`;
/** In processor time, as in `request-turns.test.ts`. The answer has three pages. */
const LONGEST_TURN_MS = 120;

let dataDir: string;
let server: RunningServer;
let meter: string;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'baobab-exports-'));
  await (await startServer({ dataDir })).stop();
  await fill({ kind: 'sqlite', path: join(dataDir, 'baobab.sqlite') }, GROWTH, () => {});
  const port = await freePort();
  meter = `http://127.0.0.1:${port}`;
  server = await startServer({
    dataDir,
    env: { TURN_METER_PORT: `${port}` },
    nodeFlags: ['--import', new URL('./turn-meter.mjs', import.meta.url).href],
  });
});
afterAll(async () => {
  await server?.stop();
  await rm(dataDir, { recursive: true, force: true });
});

const get = (path: string, signal?: AbortSignal) =>
  fetch(`${server.address}${path}`, {
    headers: { authorization: `Bearer ${server.apiKey}` },
    ...(signal && { signal }),
  });
const longestTurnMs = async () => Number(await (await fetch(meter)).text()) / 1_000;

it('a large export has every request once, in little memory and short turns', async () => {
  await (await get(EXPORT.replace('format=csv', 'format=csv&limit=10000'))).text();
  await longestTurnMs();
  const before = residentMb(server.process.pid ?? 0);
  const text = await (await get(EXPORT)).text();
  expect(await longestTurnMs()).toBeLessThan(LONGEST_TURN_MS);
  expect(residentMb(server.process.pid ?? 0) - before).toBeLessThan(100);
  const [head = '', ...lines] = text.trimEnd().split('\r\n');
  const column = (name: string) => head.split(',').indexOf(name);
  const [requests, tokens] = [column('requests'), column('prompt_tokens')];
  const sum = (index: number) => lines.reduce((total, line) => total + Number(line.split(',').at(index)), 0);
  const { totals } = (await (await get(`/v1/usage?${MONTH}&account=*`)).json()) as {
    totals: { requests: number; prompt_tokens: number };
  };
  expect(lines.length).toBeGreaterThan(20_000);
  expect(new Set(lines.map((line) => line.split(',', 4).join())).size).toBe(lines.length);
  expect(totals.requests).toBe(GROWTH.requests);
  expect([sum(requests), sum(tokens)]).toEqual([totals.requests, totals.prompt_tokens]);
});

it('the others are summed up in every page of an export of the dearest groups', async () => {
  const text = await (await get(`${EXPORT}&top=40`)).text();
  const lines = text.trimEnd().split('\r\n').slice(1);
  const groups = new Set(lines.map((line) => line.split(',', 5).slice(2).join()));
  expect(groups.size).toBe(41);
  expect(new Set(lines.map((line) => line.split(',', 6).join())).size).toBe(lines.length);
});

it('an account has few exports at a time, and they end with their clients', async () => {
  const leaving = new AbortController();
  const open = await Promise.all(Array.from({ length: 3 }, () => get(EXPORT, leaving.signal)));
  expect(open.map(({ status }) => status).sort()).toEqual([200, 200, 429]);
  expect(await open.find(({ status }) => status === 429)?.json()).toMatchObject({
    error: { code: 'concurrency_exceeded' },
  });
  expect((await get('/v1/models')).status).toBe(200);
  leaving.abort();
  const statusOfAnother = async () => {
    const another = new AbortController();
    const { status } = await get(EXPORT, another.signal);
    another.abort();
    return status;
  };
  await expect.poll(statusOfAnother, { timeout: 20_000 }).toBe(200);
});
