import OpenAI from 'openai';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { recordingFetch } from '../fixtures/openai-schemas/recording-fetch.ts';
import { openAccount, type SharedAccount } from './shared-account.ts';

const MODEL = 'huggingfacetb/smollm2-135m-instruct';

describe('text completions', () => {
  let server: SharedAccount;
  let client: OpenAI;
  let plain: OpenAI.Completion;
  const recorded = recordingFetch();
  const short = { model: MODEL, prompt: 'One, two, three, four, five,', temperature: 0, max_tokens: 8 };
  beforeAll(async () => {
    server = await openAccount();
    client = new OpenAI({
      baseURL: `${server.address}/v1`,
      apiKey: server.apiKey,
      fetch: recorded.fetch,
      maxRetries: 0,
    });
    plain = await client.completions.create(short);
  });
  afterEach(() => {
    recorded.check();
  });

  it('continue the text', () => {
    expect(plain.choices[0]?.text).toContain('six');
    expect(plain.choices[0]?.finish_reason).toBe('length');
    expect(plain.usage?.completion_tokens).toBe(8);
  });

  it('stream the same text', async () => {
    let text = '';
    const stream = await client.completions.create({ ...short, stream: true, stream_options: { include_usage: true } });
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.text ?? '';
      usage = chunk.usage;
    }
    expect(text).toBe(plain.choices[0]?.text);
    expect(usage?.completion_tokens).toBe(8);
  });

  it('give log probabilities with the offset of each token', async () => {
    const { choices } = await client.completions.create({
      ...short,
      prompt: [short.prompt],
      max_tokens: 3,
      logprobs: 2,
    });
    const { text, logprobs } = choices[0] ?? {};
    expect(text).toBe(plain.choices[0]?.text.slice(0, text?.length));
    expect(logprobs?.tokens?.join('')).toBe(text);
    expect(logprobs?.token_logprobs).toHaveLength(3);
    expect(Object.keys(logprobs?.top_logprobs?.[0] ?? {})).toHaveLength(2);
    for (const [index, token] of (logprobs?.tokens ?? []).entries()) {
      const offset = logprobs?.text_offset?.[index] ?? -1;
      expect(text?.slice(offset, offset + token.length)).toBe(token);
    }
  });

  it('refuse unsupported parameters by name', async () => {
    await expect(client.completions.create({ ...short, echo: true })).rejects.toMatchObject({
      status: 422,
      param: 'echo',
    });
    await expect(client.completions.create({ ...short, suffix: 'end' })).rejects.toMatchObject({
      status: 422,
      param: 'suffix',
    });
    await expect(client.completions.create({ ...short, prompt: 'word '.repeat(9000) })).rejects.toMatchObject({
      status: 422,
      code: 'context_length_exceeded',
      param: 'prompt',
    });
  });
});
