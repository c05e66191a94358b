import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CHAT, EMBEDDING, type HttpBed, startHttpBed } from './bed.ts';

let bed: HttpBed;
let member: { id: string; secret: string };
beforeAll(async () => {
  bed = await startHttpBed();
  await bed.post('/v1/admin/accounts', { name: 'team' });
  member = (await (await bed.post('/v1/admin/keys', { account: 'team', name: 'member' })).json()) as typeof member;
  await (await bed.post('/v1/embeddings', { model: EMBEDDING, input: 'a' }, member.secret)).text();
  await (await bed.post('/v1/embeddings', { model: EMBEDDING, input: 'a' })).text();
  await (await bed.post('/v1/chat/completions', { model: CHAT, messages: [{ role: 'user', content: 'a' }] })).text();
});
afterAll(() => bed[Symbol.asyncDispose]());

interface Report {
  buckets: Record<string, unknown>[];
  totals: { requests: number; cost_usd: number };
}
const usage = async (query: string, key?: string) => {
  const answer = await bed.fetch(`/v1/usage?start=2026-01-01&${query}`, key === undefined ? {} : { key });
  expect(answer.status).toBe(200);
  return (await answer.json()) as Report;
};

describe('GET /v1/usage', () => {
  it('filters', async () => {
    expect((await usage('')).totals.requests).toBe(2);
    expect((await usage(`model=${CHAT}`)).totals.requests).toBe(1);
    expect((await usage('region=mars')).totals.requests).toBe(0);
    expect((await usage(`account=team&key=${member.id}`)).totals.requests).toBe(1);
  });

  it('shows operators every account', async () => {
    const { buckets, totals } = await usage('account=*&group_by=account&bucket=month');
    expect(totals.requests).toBe(3);
    expect(buckets.map(({ account_name: name, requests }) => [name, requests]).sort()).toEqual([
      ['default', 2],
      ['team', 1],
    ]);
  });

  it('shows a member only its own account', async () => {
    const { buckets } = await usage('group_by=account,key', member.secret);
    expect(buckets).toMatchObject([{ account_name: 'team', key: member.id, key_name: 'member', requests: 1 }]);
    for (const account of ['default', '*', 'none']) {
      const refused = await bed.fetch(`/v1/usage?start=2026-01-01&account=${account}`, { key: member.secret });
      expect(refused.status).toBe(403);
    }
    expect((await usage('account=team', member.secret)).totals.requests).toBe(1);
  });

  it('has buckets of a time zone, in which days begin and dates are read', async () => {
    const { buckets } = await usage('time_zone=Asia/Kolkata');
    expect(buckets.every(({ start }) => String(start).endsWith('T18:30:00.000Z'))).toBe(true);
    // Midnight may have passed since the requests.
    const anHourAgo = new Date(Date.now() - 3_600_000);
    const day = new Intl.DateTimeFormat('sv-SE', { timeZone: 'Asia/Kolkata' }).format(anHourAgo);
    const answer = await bed.fetch(`/v1/usage?start=${day}&time_zone=Asia/Kolkata`);
    expect(((await answer.json()) as Report).totals.requests).toBe(2);
    const wrong = await bed.fetch('/v1/usage?start=2026-01-01&time_zone=Mars/Base');
    expect(await wrong.json()).toMatchObject({ error: { code: 'invalid_parameter', param: 'time_zone' } });
  });

  it('can be saved as CSV', async () => {
    const answer = await bed.fetch('/v1/usage?start=2026-01-01&group_by=model&format=csv');
    expect(answer.headers.get('content-type')).toBe('text/csv; charset=utf-8');
    expect(answer.headers.get('content-disposition')).toContain('usage.csv');
    const [head, ...lines] = (await answer.text()).trimEnd().split('\r\n');
    expect(head).toMatch(/^start,end,model,requests,/);
    expect(lines).toHaveLength(2);
    const accepted = await bed.fetch('/v1/usage?start=2026-01-01', { headers: { accept: 'text/csv' } });
    expect(await accepted.text()).toMatch(/^start,end,requests,/);
  });
});
