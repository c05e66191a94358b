import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { openAccount } from './shared-account.ts';
import { MODEL, type SmallChat, short, textOf, useSmallChat } from './small-chat.ts';

interface Priced {
  pricing: { prompt_per_million: number; completion_per_million: number };
}

describe('chat with the openai package', () => {
  let server: SmallChat['server'];
  let client: SmallChat['client'];
  let plain: SmallChat['plain'];
  const { refusal } = useSmallChat((opened) => {
    ({ server, client, plain } = opened);
  });

  it('answers with text, usage and finish reason', () => {
    expect(textOf(plain).length).toBeGreaterThan(5);
    expect(plain.model).toBe(MODEL);
    expect(plain.choices[0]?.finish_reason).toBe('length');
    expect(plain.usage).toMatchObject({ completion_tokens: 8, cache_read_tokens: 0 });
    expect(plain.usage?.total_tokens).toBe((plain.usage?.prompt_tokens ?? 0) + 8);
    expect(plain._request_id).toMatch(/^req_/);
  });

  it('streams the same text as a whole answer has', async () => {
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    const stream = await client.chat.completions.create({
      ...short,
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const chunk of stream) chunks.push(chunk);
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe(textOf(plain));
    const last = chunks.at(-1);
    expect(last?.choices).toEqual([]);
    expect(last?.usage?.completion_tokens).toBe(8);
    expect(last?.usage?.prompt_tokens).toBe(plain.usage?.prompt_tokens);
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
  });

  it('serves the streaming helper', async () => {
    const deltas: string[] = [];
    const stream = client.chat.completions.stream(short).on('content', (delta) => deltas.push(delta));
    const final = await stream.finalChatCompletion();
    expect(textOf(final)).toBe(textOf(plain));
    expect(deltas.join('')).toBe(textOf(plain));
    expect(deltas.length).toBeGreaterThan(2);
  });

  it('reserves and bills what the template adds to a prompt, and refuses what the budget cannot pay', async () => {
    // Nothing of its prompts is cached yet.
    const server = await openAccount();
    const post = async <T>(path: string, key: string, body: object): Promise<{ status: number; body: T }> => {
      const answer = await fetch(`${server.address}/v1/${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      return { status: answer.status, body: (await answer.json()) as T };
    };
    const messages = [{ role: 'user', content: 'Hi' }];
    const { count } = (await post<{ count: number }>('tokenize', server.apiKey, { model: MODEL, messages })).body;
    const { pricing } = await client.models.retrieve(MODEL).then((model) => model as never as Priced);
    const costUsd = (count * pricing.prompt_per_million + pricing.completion_per_million) / 1e6;
    const own = await fetch(`${server.address}/v1/keys/me`, { headers: { authorization: `Bearer ${server.apiKey}` } });
    const { account_id: account } = (await own.json()) as { account_id: string };
    const askWith = async (budgetUsd: number) => {
      const key = { account, name: 'poor', monthly_budget_usd: budgetUsd };
      const made = await post<{ secret: string }>('admin/keys', server.adminKey, key);
      return post<OpenAI.ChatCompletion>('chat/completions', made.body.secret, {
        model: MODEL,
        messages,
        max_tokens: 1,
      });
    };
    const refused = await askWith(Number((costUsd - 1e-9).toFixed(9)));
    expect(refused).toMatchObject({ status: 429, body: { error: { code: 'budget_exceeded' } } });
    const paid = await askWith(Number(costUsd.toFixed(9)));
    expect(paid.status, JSON.stringify(paid.body)).toBe(200);
    expect(paid.body.usage).toMatchObject({ prompt_tokens: count, completion_tokens: 1 });
  });

  it('accepts the optional fields that current clients send', async () => {
    const answer = await client.chat.completions.create({
      model: MODEL,
      messages: [
        { role: 'developer', content: 'Be brief.' },
        {
          role: 'user',
          name: 'ada',
          content: [
            { type: 'text', text: 'Say ' },
            { type: 'text', text: 'yes.' },
          ],
        },
      ],
      max_completion_tokens: 2,
      temperature: 0,
      store: false,
      metadata: { purpose: 'test' },
      user: 'someone',
      top_p: 0.9,
      frequency_penalty: 0.1,
      presence_penalty: 0.1,
    });
    expect(answer.usage?.completion_tokens).toBeLessThanOrEqual(2);
  });

  it('stops before a stop sequence, also one that spans tokens', async () => {
    const text = textOf(plain);
    const stop = text.slice(text.length - 6, text.length - 1);
    const answer = await client.chat.completions.create({ ...short, stop: ['never said', stop] });
    expect(textOf(answer)).toBe(text.slice(0, text.indexOf(stop)));
    expect(answer.choices[0]?.finish_reason).toBe('stop');
  });

  it('gives log probabilities whose bytes are the text', async () => {
    const answer = await client.chat.completions.create({ ...short, max_tokens: 4, logprobs: true, top_logprobs: 2 });
    const tokens = answer.choices[0]?.logprobs?.content ?? [];
    expect(tokens).toHaveLength(4);
    expect(Buffer.from(tokens.flatMap(({ bytes }) => bytes ?? [])).toString()).toBe(textOf(answer));
    for (const { logprob, token, top_logprobs: top } of tokens) {
      expect(top).toHaveLength(2);
      expect(top[0]?.token).toBe(token);
      expect(top[0]?.logprob).toBeCloseTo(logprob, 6);
      expect(logprob).toBeLessThanOrEqual(0);
      expect(top[1]?.logprob).toBeLessThanOrEqual(logprob);
    }
    const stream = await client.chat.completions.create({ ...short, max_tokens: 4, logprobs: true, stream: true });
    const streamed = (await Array.fromAsync(stream)).flatMap(({ choices }) => choices[0]?.logprobs?.content ?? []);
    expect(streamed.map(({ token, logprob }) => [token, logprob])).toEqual(
      tokens.map(({ token, logprob }) => [token, logprob]),
    );
  });

  it('obeys logit_bias', async () => {
    // 44710 is the token of " Nairobi" in the vocabulary of the model.
    const answer = await client.chat.completions.create({ ...short, max_tokens: 3, logit_bias: { 44710: 100 } });
    expect(textOf(answer).trim()).toBe('Nairobi Nairobi Nairobi');
  });

  it('gives the same text for the same seed, for every choice, also during other requests', async () => {
    const poem = [{ role: 'user' as const, content: 'Write a short poem about the sea.' }];
    const seeded = {
      ...short,
      model: 'baobab/chat-mini',
      messages: poem,
      temperature: 1,
      seed: 7,
      n: 2,
      max_tokens: 6,
    };
    const alone = await client.chat.completions.create(seeded);
    const [again] = await Promise.all([
      client.chat.completions.create(seeded),
      client.chat.completions.create({
        ...short,
        model: 'baobab/chat-mini',
        max_tokens: 4,
        messages: [{ role: 'user', content: 'Count to ten.' }],
      }),
    ]);
    const texts = ({ choices }: OpenAI.ChatCompletion) => choices.map(({ message }) => message.content);
    expect(alone.choices.map(({ index }) => index)).toEqual([0, 1]);
    expect(alone.usage?.completion_tokens).toBeLessThanOrEqual(12);
    expect(new Set(texts(alone)).size).toBe(2);
    expect(texts(again)).toEqual(texts(alone));
  });

  it('reads only the new part of a conversation, within one account', async () => {
    const messages: OpenAI.ChatCompletionMessageParam[] = [
      { role: 'system', content: 'You are a patient guide to the wildlife of the savanna. '.repeat(12) },
      { role: 'user', content: 'Name one animal.' },
    ];
    const ask = (asking: OpenAI, conversation: OpenAI.ChatCompletionMessageParam[]) =>
      // Its text at temperature 0 is exact; that of other models is best effort.
      asking.chat.completions.create({
        model: 'baobab/chat-mini',
        messages: conversation,
        temperature: 0,
        max_tokens: 2,
      });
    const first = await ask(client, messages);
    const turns: OpenAI.ChatCompletionMessageParam[] = [
      ...messages,
      { role: 'assistant', content: textOf(first) },
      { role: 'user', content: 'And another?' },
    ];
    const second = await ask(client, turns);
    const cached = second.usage?.prompt_tokens_details?.cached_tokens ?? 0;
    // Prefixes are kept in whole steps, so that a cached one gives the same text as a fresh one.
    expect(cached).toBeGreaterThanOrEqual(64);
    expect(second.usage).toMatchObject({ cache_read_tokens: cached });
    expect(cached).toBeLessThan(second.usage?.prompt_tokens ?? 0);

    const { apiKey } = await openAccount();
    const stranger = new OpenAI({ baseURL: `${server.address}/v1`, apiKey, maxRetries: 0 });
    const elsewhere = await ask(stranger, turns);
    expect(elsewhere.usage?.prompt_tokens_details?.cached_tokens).toBe(0);
    expect(textOf(elsewhere)).toBe(textOf(second));
  });

  describe('refuses, before any work,', () => {
    it('a prompt beyond the context', async () => {
      const error = await refusal({ messages: [{ role: 'user', content: 'word '.repeat(8200) }] });
      expect(error).toMatchObject({ status: 422, code: 'context_length_exceeded', param: 'messages' });
      expect(error.message).toMatch(/8192 tokens.*82\d\d tokens/);
      const create = client.responses.create({ model: MODEL, input: 'word '.repeat(8200) });
      await expect(create).rejects.toMatchObject({ status: 422, code: 'context_length_exceeded', param: 'input' });
    });

    it('more tokens than fit, with the numbers', async () => {
      const above = await refusal({ max_tokens: 9000 });
      expect(above).toMatchObject({ status: 422, code: 'context_length_exceeded', param: 'max_tokens' });
      expect(above.message).toMatch(/9000.*8192/);
      const beside = await refusal({ max_tokens: 8180 });
      expect(beside).toMatchObject({ status: 422, code: 'context_length_exceeded', param: 'max_tokens' });
      expect(beside.message).toMatch(new RegExp(`8192.*${plain.usage?.prompt_tokens} in the messages, 8180`));
    });

    it('an image', async () => {
      const content = [{ type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AAAA' } }];
      const error = await refusal({ messages: [{ role: 'user', content }] });
      expect(error).toMatchObject({ status: 422, code: 'unsupported_parameter', param: 'messages[0].content[0]' });
    });

    it('a model that does not chat', async () => {
      expect(await refusal({ model: 'thenlper/gte-small' })).toMatchObject({ status: 422, code: 'wrong_modality' });
    });

    it('a schema that is too complex, by its keyword', async () => {
      const schema = { type: 'object', properties: { x: { type: 'string', pattern: '^((a{1,50}){1,50}){1,50}$' } } };
      const error = await refusal({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } });
      expect(error).toMatchObject({
        status: 422,
        code: 'unsupported_parameter',
        param: 'response_format.json_schema.schema.properties.x',
      });
      expect(error.message).toContain("'pattern'");
    });

    it('an unsupported schema keyword, by its name', async () => {
      const schema = {
        type: 'object',
        properties: { a: { type: 'array', uniqueItems: true, items: { type: 'string' } } },
      };
      const error = await refusal({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } });
      expect(error.status).toBe(422);
      expect(error.message).toContain('uniqueItems');
    });
  });
});
