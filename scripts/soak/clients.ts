import { randomUUID } from 'node:crypto';
import OpenAI, { toFile } from 'openai';
import { type Dispatcher, Pool } from 'undici';
import type { Receipts, Received } from './receipts.ts';

export const MODELS = {
  local: 'sentence-transformers/all-minilm-l6-v2',
  embedding: 'intfloat/e5-mistral-7b-instruct',
  rerank: 'baai/bge-reranker-v2-m3',
  chat: 'mistralai/mistral-small-3.2-24b-instruct',
} as const;

export interface ClientOptions {
  address: string;
  apiKey: string;
  receipts: Receipts;
  batchDiscountPercent: number;
  random?: () => number;
}

interface WireUsage {
  prompt_tokens: number;
  completion_tokens?: number;
  cache_read_tokens?: number;
}

const seen = (model: string, usage: WireUsage, discountPercent = 0): Received => ({
  model,
  promptTokens: usage.prompt_tokens,
  completionTokens: usage.completion_tokens ?? 0,
  cacheReadTokens: usage.cache_read_tokens ?? 0,
  discountPercent,
});

const WORDS = 'river market morning teacher quiet harvest letter bridge window story garden winter road music'.split(
  ' ',
);

/** Clients of every kind. Each records what it received. */
export function createClients({
  address,
  apiKey,
  receipts,
  batchDiscountPercent,
  random = Math.random,
}: ClientOptions) {
  const pool = new Pool(address, { connections: 64 });
  const openai = new OpenAI({ apiKey, baseURL: `${address}/v1`, maxRetries: 0 });
  const pick = (count: number) => Math.floor(random() * count);
  const text = () => Array.from({ length: 1 + pick(20) }, () => WORDS[pick(WORDS.length)]).join(' ');

  const post = (path: string, body: object, options: { signal?: AbortSignal; headers?: Record<string, string> } = {}) =>
    pool.request({
      method: 'POST',
      path,
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...options.headers },
      body: JSON.stringify(body),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
  const idOf = ({ headers }: Dispatcher.ResponseData) => String(headers['x-request-id']);

  async function whole(path: string, body: { model: string }): Promise<void> {
    const answer = await post(path, body);
    const json = (await answer.body.json()) as { usage: WireUsage };
    if (answer.statusCode !== 200)
      return receipts.problem(`${path} answered ${answer.statusCode} ${JSON.stringify(json)}`);
    receipts.whole(idOf(answer), seen(body.model, json.usage));
  }

  const chatBody = (stream: boolean) => ({
    model: MODELS.chat,
    messages: [{ role: 'user', content: text() }],
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  });

  /** Reads a stream to its end, or disconnects after a number of chunks. */
  async function stream(cancelAfter: number): Promise<void> {
    const leaving = new AbortController();
    let requestId: string | undefined;
    let pieces = 0;
    if (cancelAfter === 0) setTimeout(() => leaving.abort(), pick(8));
    try {
      const answer = await post('/v1/chat/completions', chatBody(true), { signal: leaving.signal });
      requestId = idOf(answer);
      let rest = '';
      let usage: WireUsage | undefined;
      let done = false;
      for await (const chunk of answer.body) {
        const lines = (rest + chunk).split('\n\n');
        rest = lines.pop() ?? '';
        for (const line of lines) {
          if (line === 'data: [DONE]') done = true;
          else if (line.startsWith('data: ')) {
            const event = JSON.parse(line.slice(6));
            usage = event.usage ?? usage;
            if (event.choices?.[0]?.delta?.content) pieces += 1;
          }
        }
        if (pieces >= cancelAfter && !done) leaving.abort();
      }
      if (!done || usage === undefined) return receipts.problem(`${requestId}: a stream without its end`);
      receipts.whole(requestId, seen(MODELS.chat, usage));
    } catch (error) {
      if (!leaving.signal.aborted) throw error;
      if (requestId === undefined) receipts.lost();
      else receipts.part(requestId, pieces);
    }
  }

  return {
    local: () =>
      whole('/v1/embeddings', { model: MODELS.local, input: Array.from({ length: 1 + pick(8) }, text) } as never),
    remote: () => whole('/v1/embeddings', { model: MODELS.embedding, input: text() } as never),
    rerank: () =>
      whole('/v1/rerank', {
        model: MODELS.rerank,
        query: text(),
        documents: Array.from({ length: 1 + pick(10) }, text),
      } as never),
    chat: () => whole('/v1/chat/completions', chatBody(false)),
    stream: () => stream(Number.POSITIVE_INFINITY),
    cancelledStream: () => stream(pick(6)),

    /** Equal requests, some concurrent and one later: one is run and billed, and all get the same answer. */
    async idempotent(): Promise<void> {
      const body = { model: MODELS.embedding, input: text() };
      const headers = { 'idempotency-key': randomUUID() };
      const once = async () => {
        const answer = await post('/v1/embeddings', body, { headers });
        return {
          id: idOf(answer),
          replayed: answer.headers['idempotent-replayed'] === 'true',
          text: await answer.body.text(),
        };
      };
      const answers = [...(await Promise.all([once(), once()])), await once()];
      const first = answers.filter(({ replayed }) => !replayed);
      const texts = new Set(answers.map((answer) => answer.text));
      if (first.length !== 1 || texts.size !== 1)
        return receipts.problem(`an idempotency key ran ${first.length} times and gave ${texts.size} answers`);
      const { usage } = JSON.parse(answers[0]?.text ?? '{}') as { usage: WireUsage };
      receipts.whole(first[0]?.id ?? '', seen(MODELS.embedding, usage));
    },

    /** Neither is billed. */
    async refused(): Promise<void> {
      const wrong = [
        post('/v1/embeddings', { model: 'nobody/nothing', input: 'x' }),
        post('/v1/embeddings', { model: MODELS.embedding, input: '' }),
        post('/v1/chat/completions', { ...chatBody(false), max_tokens: 100_000_000 }),
      ];
      for (const answer of await Promise.all(wrong)) {
        await answer.body.dump();
        if (answer.statusCode < 400 || answer.statusCode >= 500)
          receipts.problem(`a bad request got ${answer.statusCode}`);
      }
    },

    async usage(): Promise<void> {
      const start = new Date(Date.now() - 3_600_000).toISOString();
      const answer = await pool.request({
        method: 'GET',
        path: `/v1/usage?start=${start}&bucket=hour&group_by=model,key`,
        headers: { authorization: `Bearer ${apiKey}` },
      });
      await answer.body.dump({ limit: Number.POSITIVE_INFINITY });
      if (answer.statusCode !== 200) receipts.problem(`usage answered ${answer.statusCode}`);
    },

    async batch(): Promise<void> {
      const model = random() < 0.5 ? MODELS.embedding : MODELS.local;
      const lines = Array.from({ length: 5 + pick(30) }, (_, line) =>
        JSON.stringify({
          custom_id: `line-${line}`,
          method: 'POST',
          url: '/v1/embeddings',
          body: { model, input: text() },
        }),
      );
      const file = await openai.files.create({
        file: await toFile(Buffer.from(lines.join('\n')), 'soak.jsonl'),
        purpose: 'batch',
      });
      const order = { input_file_id: file.id, endpoint: '/v1/embeddings', completion_window: '24h' } as const;
      let batch = await openai.batches.create(order);
      while (!['completed', 'failed', 'expired', 'cancelled'].includes(batch.status)) {
        await new Promise((resolve) => setTimeout(resolve, 200));
        batch = await openai.batches.retrieve(batch.id);
      }
      const output = batch.output_file_id ? await (await openai.files.content(batch.output_file_id)).text() : '';
      const results = output
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      const names = new Set(results.map((result) => result.custom_id));
      if (names.size !== lines.length)
        receipts.problem(`a batch of ${lines.length} lines has ${names.size} results (${batch.status})`);
      for (const { response } of results) {
        receipts.whole(response.request_id, seen(model, response.body.usage, batchDiscountPercent));
      }
      for (const id of [file.id, batch.output_file_id, batch.error_file_id]) if (id) await openai.files.delete(id);
    },

    close: () => pool.close(),
  };
}
