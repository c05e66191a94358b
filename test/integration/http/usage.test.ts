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

  it('lists the dearest groups and the sum of the others', async () => {
    const { buckets, totals } = await usage('account=*&group_by=key&top=1&bucket=month');
    expect(buckets.filter(({ other }) => other === true).length).toBeGreaterThan(0);
    expect(new Set(buckets.filter(({ other }) => other === undefined).map(({ key }) => key)).size).toBe(1);
    expect(totals).toEqual((await usage('account=*&bucket=month')).totals);
    const csv = await bed.fetch('/v1/usage?start=2026-01-01&account=*&group_by=key&top=1&format=csv');
    expect(await csv.text()).toMatch(/\r\n[^\r]*,other,other,/);
  });

  it('comes in pages', async () => {
    const query = '/v1/usage?start=2026-01-01&account=*&group_by=model,key&bucket=month&limit=1';
    type Page = Report & { has_more: boolean; next_cursor: string | null };
    const seen: unknown[] = [];
    for (let after = ''; ; ) {
      const page = (await (await bed.fetch(`${query}${after}`)).json()) as Page;
      seen.push(...page.buckets);
      expect(page.has_more).toBe(page.next_cursor !== null);
      if (page.next_cursor === null) break;
      after = `&after=${page.next_cursor}`;
    }
    expect(seen).toEqual((await usage('account=*&group_by=model,key&bucket=month')).buckets);
    for (const after of ['nonsense', Buffer.from('[1]').toString('base64url')]) {
      const refused = await bed.fetch(`${query}&after=${after}`);
      expect(await refused.json()).toMatchObject({ error: { code: 'invalid_parameter', param: 'after' } });
    }
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
