import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { networkInterfaces } from 'node:os';
import { expect, it } from 'vitest';
import { type HttpBed, startHttpBed } from './bed.ts';

const outside = Object.values(networkInterfaces())
  .flat()
  .find((each) => each?.family === 'IPv4' && !each.internal)?.address;

/** Undefined on a machine without a network. */
async function statusFromOutside(bed: HttpBed, headers: Record<string, string> = {}): Promise<number | undefined> {
  if (outside === undefined) return undefined;
  const url = new URL('/metrics', bed.address);
  url.hostname = outside;
  return (await fetch(url, { headers })).status;
}
const status = async (bed: HttpBed, headers: Record<string, string> = {}) =>
  (await bed.fetch('/metrics', { key: null, headers })).status;

it('shows metrics to programs on this machine only by default', async () => {
  await using bed = await startHttpBed({ host: '0.0.0.0' });
  expect(await status(bed)).toBe(200);
  expect((await statusFromOutside(bed)) ?? 404).toBe(404);
  for (const [name, value] of [
    ['x-forwarded-for', '203.0.113.9'],
    ['forwarded', 'for=203.0.113.9'],
    ['via', '1.1 proxy'],
    ['x-forwarded-proto', 'https'],
    ['x-forwarded-server', 'proxy'],
    ['x-original-forwarded-for', '203.0.113.9'],
    ['x-real-ip', '203.0.113.9'],
    ['true-client-ip', '203.0.113.9'],
    ['cf-connecting-ip', '203.0.113.9'],
    ['cdn-loop', 'cloudflare'],
    ['x-amzn-trace-id', 'Root=1'],
  ] as const) {
    expect([name, await status(bed, { [name]: value })]).toEqual([name, 404]);
  }
});

it('hides metrics from a proxy on this machine that only keeps the name of the host', async () => {
  await using bed = await startHttpBed();
  const statusFor = async (host: string) => {
    // A connection of its own: a kept one may belong to an earlier server on the same port.
    const sent = request(new URL('/metrics', bed.address), { headers: { host }, agent: false });
    sent.end();
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    answer.resume();
    return answer.statusCode;
  };
  const hosts = [
    'localhost',
    'LOCALHOST:8080',
    '127.0.0.1:8080',
    '[::1]:8080',
    'api.example.org',
    'localhost.example.org',
  ];
  expect(await Promise.all(hosts.map(statusFor))).toEqual([200, 200, 200, 200, 404, 404]);
});

it('shows metrics to everyone if they are public', async () => {
  await using bed = await startHttpBed({ host: '0.0.0.0', http: { public_metrics: true } });
  expect((await statusFromOutside(bed)) ?? 200).toBe(200);
  expect(await status(bed, { 'x-forwarded-for': '203.0.113.9' })).toBe(200);
});

it('shows metrics only to those who send the token, if there is one', async () => {
  await using bed = await startHttpBed({ host: '0.0.0.0', metrics: { token: 'metrics-token-0123456789' } });
  expect(await status(bed)).toBe(404);
  expect(await status(bed, { authorization: 'Bearer wrong' })).toBe(404);
  const headers = { authorization: 'Bearer metrics-token-0123456789', 'x-forwarded-for': '203.0.113.9' };
  expect(await status(bed, headers)).toBe(200);
  expect((await statusFromOutside(bed, headers)) ?? 200).toBe(200);
});
