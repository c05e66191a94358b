import { afterAll, expect, it } from 'vitest';
import { CHAT, startHttpBed } from './bed.ts';

const bed = await startHttpBed({ requests: { text_max_bytes: 200 } });
afterAll(() => bed[Symbol.asyncDispose]());

const ALL = ['chat', 'usage', 'prompts'];

async function createKey(account: string, scopes = ALL): Promise<string> {
  const answer = await bed.post('/v1/admin/keys', { account, name: `key ${scopes.join(' ')}`, scopes });
  return ((await answer.json()) as { secret: string }).secret;
}

async function createMember(account: string, settings: object): Promise<string> {
  const created = await bed.post('/v1/admin/accounts', { name: account, ...settings });
  expect(created.status).toBe(200);
  return createKey(account);
}

const ask = async (key: string, content: string, more: object = {}): Promise<string> => {
  const messages = [{ role: 'user', content }];
  const answer = await bed.post('/v1/chat/completions', { model: CHAT, messages, max_tokens: 4, ...more }, key);
  expect(answer.status).toBe(200);
  await answer.text();
  return answer.headers.get('x-request-id') ?? '';
};

interface Text {
  prompt: string | null;
  answer: string | null;
  truncated: boolean;
}

const detailOf = async (key: string, id: string) => {
  const answer = await bed.fetch(`/v1/requests/${id}`, { key });
  expect(answer.status).toBe(200);
  return (await answer.json()) as { text: Text | null; text_unavailable: string | null };
};
const textOf = async (key: string, id: string): Promise<Text | null> => (await detailOf(key, id)).text;

it('keeps nothing unless the account asks for it', async () => {
  const key = await createMember('plain', {});
  const id = await ask(key, 'a secret');
  for (const reader of [key, await createKey('plain', ['usage']), await createKey('default', [...ALL, 'admin'])]) {
    expect(await detailOf(reader, id)).toMatchObject({ text: null, text_unavailable: 'not_kept' });
  }
  await bed.post('/v1/admin/accounts/plain', { store_prompts: true });
  expect(await textOf(key, id)).toBeNull();
});

it('keeps prompts and answers, whole and streamed, for keys of the account with the scope', async () => {
  const key = await createMember('keeping', { store_prompts: true });
  for (const stream of [false, true]) {
    const id = await ask(key, 'Where is it?', { stream });
    const text = await textOf(key, id);
    expect(text).toMatchObject({ truncated: false });
    expect(JSON.parse(text?.prompt ?? '')).toMatchObject({ messages: [{ content: 'Where is it?' }] });
    expect(text?.answer).toMatch(/\w/);
    expect(await detailOf(key, id)).toMatchObject({ text_unavailable: null });
    const member = await createKey('keeping', ['usage']);
    expect(await detailOf(member, id)).toMatchObject({ text: null, text_unavailable: 'missing_scope' });
    // Operators administer other accounts, but do not read their prompts.
    const operator = await createKey('default', [...ALL, 'admin']);
    expect(await detailOf(operator, id)).toMatchObject({ text: null, text_unavailable: 'other_account' });
  }
});

it('cuts long texts and says so', async () => {
  const key = await createMember('long', { store_prompts: true });
  const text = await textOf(key, await ask(key, 'ä'.repeat(300)));
  expect(text?.truncated).toBe(true);
  expect(Buffer.byteLength(text?.prompt ?? '')).toBeLessThanOrEqual(200);
  expect(text?.prompt).not.toContain('\ufffd');
});

it('is refused together with zero retention', async () => {
  const both = await bed.post('/v1/admin/accounts', { name: 'both', store_prompts: true, zero_retention: true });
  expect(both.status).toBe(400);
  expect(await both.json()).toMatchObject({
    error: { param: 'store_prompts', message: expect.stringContaining("'zero_retention' exclude each other") },
  });
  await createMember('strict', { zero_retention: true });
  expect((await bed.post('/v1/admin/accounts/strict', { store_prompts: true })).status).toBe(400);
  await createMember('loose', { store_prompts: true });
  expect((await bed.post('/v1/admin/accounts/loose', { zero_retention: true })).status).toBe(400);
  const changed = await bed.post('/v1/admin/accounts/loose', { zero_retention: true, store_prompts: false });
  expect(await changed.json()).toMatchObject({ zero_retention: true, store_prompts: false });
});

it('shows nothing any more once it is switched off', async () => {
  const key = await createMember('changed', { store_prompts: true });
  const id = await ask(key, 'Hello');
  expect(await textOf(key, id)).not.toBeNull();
  await bed.post('/v1/admin/accounts/changed', { store_prompts: false });
  await expect.poll(() => detailOf(key, id)).toMatchObject({ text: null, text_unavailable: 'not_kept' });
});
