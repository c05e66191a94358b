import { afterAll, expect, it } from 'vitest';
import { CHAT, startHttpBed } from './bed.ts';

const bed = await startHttpBed();
const body = { account: 'default', name: 'poor', scopes: ['chat'], monthly_budget_usd: 0.000001 };
const key = ((await (await bed.post('/v1/admin/keys', body)).json()) as { secret: string }).secret;
afterAll(() => bed[Symbol.asyncDispose]());

const messages = [{ role: 'user', content: 'Hi' }];

it.each([
  ['/v1/chat/completions', 'max_tokens', { messages }],
  ['/v1/chat/completions', 'max_tokens', { messages, max_tokens: 500 }],
  ['/v1/chat/completions', 'max_completion_tokens', { messages, max_completion_tokens: 500 }],
  ['/v1/completions', 'max_tokens', { prompt: 'Hi', max_tokens: 500 }],
  ['/v1/messages', 'max_tokens', { messages, max_tokens: 500 }],
  ['/v1/responses', 'max_output_tokens', { input: 'Hi' }],
  ['/v1/responses', 'max_output_tokens', { input: 'Hi', stream: true }],
])('%s: a request that exceeds the budget is told to lower %s', async (path, field, body) => {
  const answer = await bed.post(path, { model: CHAT, ...body }, key);
  expect(answer.status).toBe(429);
  const { error } = (await answer.json()) as { error: { message: string } };
  expect(error.message).toContain(`Ask for less, such as a lower '${field}'; the budget resets at`);
});

it('a background response that exceeds the budget is told to lower max_output_tokens', async () => {
  const post = () => bed.post('/v1/responses', { model: CHAT, input: 'Hi', background: true }, key);
  const { id } = (await (await post()).json()) as { id: string };
  const read = async () =>
    (await (await bed.fetch(`/v1/responses/${id}`, { key })).json()) as {
      status: string;
      error: { message: string } | null;
    };
  await expect.poll(async () => (await read()).status, { timeout: 10_000 }).toBe('failed');
  expect((await read()).error?.message).toContain("such as a lower 'max_output_tokens'");
});
