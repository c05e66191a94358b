import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CHAT, type HttpBed, startHttpBed } from './bed.ts';

const WORDS = 4_000;
const messages = [{ role: 'user', content: 'Count.' }];

let bed: HttpBed;
beforeAll(async () => {
  bed = await startHttpBed();
  bed.chat.behaviour.words = Array.from({ length: WORDS }, (_, index) => ` ${index}`);
});
afterAll(() => bed[Symbol.asyncDispose]());

interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
}

/** A key that can pay a few steps of an answer, but not all of it. */
async function poorKey(): Promise<{ secret: string; budgetUsd: number }> {
  const { pricing } = (await (await bed.fetch(`/v1/models/${CHAT}`)).json()) as {
    pricing: { completion_per_million: number };
  };
  const budgetUsd = Number(((pricing.completion_per_million * 2_000) / 1e6).toFixed(9));
  const body = { account: 'default', name: 'poor', scopes: ['chat', 'usage'], monthly_budget_usd: budgetUsd };
  const { secret } = (await (await bed.post('/v1/admin/keys', body)).json()) as { secret: string };
  return { secret, budgetUsd };
}

async function spentUsd(key: string): Promise<number> {
  const { budget } = (await (await bed.fetch('/v1/keys/me', { key })).json()) as { budget: { spent_usd: number } };
  return budget.spent_usd;
}

const events = (text: string) =>
  text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)) as Record<string, never>);

describe('an answer whose budget is used up', () => {
  it.each([false, true])('of a chat ends with length and names the budget (stream: %s)', async (stream) => {
    const { secret, budgetUsd } = await poorKey();
    const whole = { model: CHAT, messages };
    const body = stream ? { ...whole, stream, stream_options: { include_usage: true } } : whole;
    const answer = await bed.post('/v1/chat/completions', body, secret);
    expect(answer.status).toBe(200);
    let end: object | undefined;
    let usage: Usage | undefined;
    if (stream) {
      const chunks = events(await answer.text()) as unknown as {
        choices: { finish_reason: string | null }[];
        usage?: Usage;
      }[];
      end = chunks.find(({ choices }) => choices[0]?.finish_reason)?.choices[0];
      usage = chunks.at(-1)?.usage;
    } else {
      const whole = (await answer.json()) as { choices: object[]; usage: Usage };
      end = whole.choices[0];
      usage = whole.usage;
      // It was streamed from the upstream, which was stopped.
      expect(bed.chat.requests.at(-1)).toMatchObject({ body: { stream: true } });
    }
    expect(end).toMatchObject({ finish_reason: 'length', stopped_by: 'budget' });
    expect(usage?.completion_tokens).toBeGreaterThan(1_000);
    expect(usage?.completion_tokens).toBeLessThanOrEqual(2_000);
    expect(await spentUsd(secret)).toBeGreaterThan(budgetUsd / 2);
    expect(await spentUsd(secret)).toBeLessThanOrEqual(budgetUsd);
    // What is left does not pay another step.
    const next = await bed.post('/v1/chat/completions', whole, secret);
    expect([200, 429]).toContain(next.status);
    expect(await spentUsd(secret)).toBeLessThanOrEqual(budgetUsd);
  });

  it.each([false, true])('of a message ends with max_tokens (stream: %s)', async (stream) => {
    const { secret } = await poorKey();
    const answer = await bed.post('/v1/messages', { model: CHAT, max_tokens: 100_000, messages, stream }, secret);
    const text = await answer.text();
    const end = stream
      ? events(text).find(({ type }) => type === 'message_delta')?.delta
      : (JSON.parse(text) as Record<string, unknown>);
    expect(end).toMatchObject({ stop_reason: 'max_tokens', stopped_by: 'budget' });
  });

  it.each([
    ['in one piece', {}],
    ['as a stream', { stream: true }],
    ['in the background', { background: true }],
  ])('of a response is incomplete: %s', async (_how, more) => {
    const { secret } = await poorKey();
    const answer = await bed.post('/v1/responses', { model: CHAT, input: 'Count.', ...more }, secret);
    const incomplete = {
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      stopped_by: 'budget',
    };
    if ('stream' in more) {
      const last = events(await answer.text()).at(-1);
      expect(last).toMatchObject({ type: 'response.incomplete', response: incomplete });
      return;
    }
    const { id } = (await answer.clone().json()) as { id: string };
    const stored = async () => (await bed.fetch(`/v1/responses/${id}`, { key: secret })).json();
    await expect.poll(stored, { timeout: 20_000 }).toMatchObject(incomplete);
  });

  it('is not cut if the answer that was asked for was paid from the start', async () => {
    const { secret } = await poorKey();
    const answer = await bed.post('/v1/chat/completions', { model: CHAT, messages, max_tokens: 1_500 }, secret);
    const { choices } = (await answer.json()) as { choices: object[] };
    expect(choices).toMatchObject([{ finish_reason: 'stop' }]);
    expect(choices[0]).not.toHaveProperty('stopped_by');
  });
});

it('an upstream that counts what cannot be is billed as far as it can, logged and counted', async () => {
  const lies = { prompt_tokens: 1e9, completion_tokens: 1e9 };
  const message = { role: 'assistant', content: 'Hi' };
  const chunk = (fields: object) => ({ id: 'c', object: 'chat.completion.chunk', model: 'm', ...fields });
  bed.chat.behaviour.payloads = [
    chunk({ choices: [{ index: 0, delta: message, finish_reason: 'stop' }], usage: lies }),
  ];
  try {
    const answer = await bed.post('/v1/chat/completions', { model: CHAT, messages, max_tokens: 5 });
    const { usage } = (await answer.json()) as { usage: Usage };
    expect(usage.completion_tokens).toBe(5);
    expect(usage.prompt_tokens).toBeLessThan(2_500);
  } finally {
    bed.chat.behaviour.payloads = undefined;
  }
  const metrics = await (await bed.fetch('/metrics')).text();
  expect(metrics).toMatch(/^baobab_upstream_overcounts_total\{.*qwen.*\} [1-9]/m);
});
