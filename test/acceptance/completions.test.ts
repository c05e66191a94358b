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

  it('answer several prompts in their order, with choices for each and one bill', async () => {
    const prompt = [short.prompt, 'The capital of Kenya is'];
    const answer = await client.completions.create({ ...short, prompt, n: 2, max_tokens: 2 });
    const texts = answer.choices.map(({ text }) => text);
    expect(answer.choices.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
    expect(texts.slice(0, 2)).toEqual([plain.choices[0]?.text.slice(0, texts[0]?.length), texts[0]]);
    expect(texts.slice(2)).toEqual([' Nairobi.', ' Nairobi.']);
    const single = await client.completions.create({ ...short, prompt: prompt[1] ?? '', max_tokens: 2 });
    expect(answer.usage).toMatchObject({
      prompt_tokens: (plain.usage?.prompt_tokens ?? 0) + (single.usage?.prompt_tokens ?? 0),
      completion_tokens: 8,
    });
  });

  it('tell how likely the tokens of a prompt are', async () => {
    const echoed = {
      model: MODEL,
      prompt: [
        [504, 3575, 282, 14792],
        [504, 3575],
      ],
      echo: true,
      logprobs: 1,
      temperature: 0,
    };
    // OpenAI answers null for the first token too, which its schema does not allow.
    const unchecked = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: server.apiKey, maxRetries: 0 });
    const { choices } = await unchecked.completions.create({ ...echoed, max_tokens: 1 });
    expect(choices.map(({ logprobs }) => logprobs?.token_logprobs?.length)).toEqual([5, 3]);
    for (const { text, logprobs } of choices) {
      expect(logprobs?.tokens?.join('')).toBe(text);
      expect(logprobs?.token_logprobs?.[0]).toBeNull();
      for (const value of logprobs?.token_logprobs?.slice(1) ?? []) expect(value).toBeLessThan(0);
    }
    const [kenya, likeliest] = [choices[0]?.logprobs?.token_logprobs, choices[0]?.logprobs?.top_logprobs];
    expect(likeliest?.[2]).toEqual({ ' of': kenya?.[2] });
    expect(Object.keys(likeliest?.[3] ?? {})).toContain(' Kenya');
  });

  it('have the tokens that /tokenize tells', async () => {
    const ask = async (path: string, body: object): Promise<Record<string, unknown>> => {
      const answer = await fetch(`${server.address}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: MODEL, ...body }),
      });
      return (await answer.json()) as Record<string, unknown>;
    };
    const encoded = await ask('/tokenize', { prompt: short.prompt });
    expect(encoded).toMatchObject({ count: plain.usage?.prompt_tokens, max_model_len: 8192, token_strs: null });
    expect(await ask('/v1/detokenize', { tokens: encoded.tokens })).toEqual({ prompt: short.prompt });
    const chat = await ask('/v1/tokenize', { messages: [{ role: 'user', content: 'Hi' }] });
    expect((await ask('/detokenize', { tokens: chat.tokens })).prompt).toMatch(
      /user\nHi<\|im_end\|>\n<\|im_start\|>assistant\n$/,
    );
    expect(await ask('/v1/detokenize', { tokens: [99_999_999] })).toMatchObject({ error: { param: 'tokens' } });
  });

  it('refuse unsupported parameters by name', async () => {
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
