import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type HttpBed, startHttpBed } from './bed.ts';

async function issueKey(bed: HttpBed, allowedAddresses: string[]): Promise<{ id: string; secret: string }> {
  const body = { account: 'default', name: 'office', allowed_addresses: allowedAddresses };
  const answer = await bed.post('/v1/admin/keys', body);
  expect(answer.status).toBe(200);
  const key = (await answer.json()) as { id: string; secret: string; allowed_addresses: string[] };
  expect(key.allowed_addresses).toEqual(allowedAddresses);
  return key;
}

async function codeOf(bed: HttpBed, key: string, forwardedFor?: string): Promise<string | undefined> {
  const headers = forwardedFor === undefined ? {} : { 'x-forwarded-for': forwardedFor };
  const answer = await bed.fetch('/v1/models', { key, headers });
  const { error } = (await answer.json()) as { error?: { code: string } };
  expect(answer.status).toBe(error === undefined ? 200 : 403);
  return error?.code;
}

describe('a key with allowed addresses', () => {
  let bed: HttpBed;
  beforeAll(async () => {
    bed = await startHttpBed();
  });
  afterAll(() => bed[Symbol.asyncDispose]());

  it('works from those addresses only, and changes apply at once', async () => {
    const { id, secret } = await issueKey(bed, ['127.0.0.0/8']);
    expect(await codeOf(bed, secret)).toBeUndefined();
    await bed.post(`/v1/admin/keys/${id}`, { allowed_addresses: ['10.0.0.0/8', '2001:db8::/32'] });
    expect(await codeOf(bed, secret)).toBe('address_not_allowed');
    await bed.post(`/v1/admin/keys/${id}`, { allowed_addresses: [] });
    expect(await codeOf(bed, secret)).toBeUndefined();
  });

  it('keeps its addresses when it is rotated', async () => {
    const { id } = await issueKey(bed, ['10.0.0.0/8']);
    const rotated = await bed.post(`/v1/admin/keys/${id}/rotate`, {});
    expect(await codeOf(bed, ((await rotated.json()) as { secret: string }).secret)).toBe('address_not_allowed');
  });

  it('is refused with an invalid address', async () => {
    const answer = await bed.post('/v1/admin/keys', {
      account: 'default',
      name: 'x',
      allowed_addresses: ['10.0.0.0/33'],
    });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ error: { param: 'allowed_addresses[0]' } });
  });

  it('ignores X-Forwarded-For, which anyone can send', async () => {
    const { secret } = await issueKey(bed, ['10.0.0.0/8']);
    expect(await codeOf(bed, secret, '10.1.2.3')).toBe('address_not_allowed');
  });
});

describe('behind a trusted proxy', () => {
  let bed: HttpBed;
  beforeAll(async () => {
    bed = await startHttpBed({ http: { trusted_proxies: ['127.0.0.1', '10.0.0.0/8'] } });
  });
  afterAll(() => bed[Symbol.asyncDispose]());

  it('the last address before the proxies counts', async () => {
    const { secret } = await issueKey(bed, ['203.0.113.0/24']);
    expect(await codeOf(bed, secret, '203.0.113.7')).toBeUndefined();
    expect(await codeOf(bed, secret, '203.0.113.7, 10.0.0.1')).toBeUndefined();
    expect(await codeOf(bed, secret, '198.51.100.1')).toBe('address_not_allowed');
    // What the client itself sent is left of what the proxy added.
    expect(await codeOf(bed, secret, '203.0.113.7, 198.51.100.1')).toBe('address_not_allowed');
    expect(await codeOf(bed, secret)).toBe('address_not_allowed');
  });

  it('keeps metrics from clients of the proxy', async () => {
    expect((await bed.fetch('/metrics')).status).toBe(200);
    expect((await bed.fetch('/metrics', { headers: { 'x-forwarded-for': '203.0.113.7' } })).status).toBe(404);
  });
});
