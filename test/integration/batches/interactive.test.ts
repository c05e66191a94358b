import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type FakeUpstream, startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import { CHAT, EMBEDDING, type HttpBed, startHttpBed } from '../http/bed.ts';

const SETTINGS = {
  batches: { concurrency: 16 },
  limits: { chat: { rpm: 10_000, tpm: 1_000_000_000 }, embedding: { rpm: 10_000, tpm: 1_000_000_000 } },
};

describe('batch lines at upstreams, beside interactive requests', () => {
  let bed: HttpBed;
  let release: () => void;
  beforeAll(async () => {
    bed = await startHttpBed(SETTINGS);
  });
  afterEach(() => release());
  afterAll(() => bed[Symbol.asyncDispose]());

  /** Answers of the upstream wait until the end of the test. */
  function hold({ behaviour, requests }: FakeUpstream): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    behaviour.hold = () => promise;
    requests.length = 0;
    release = () => {
      behaviour.hold = undefined;
      resolve();
    };
  }

  async function order(url: string, body: (index: number) => object): Promise<() => Promise<string>> {
    const lines = Array.from({ length: 40 }, (_, index) =>
      JSON.stringify({ custom_id: String(index), method: 'POST', url, body: body(index) }),
    );
    const form = new FormData();
    form.append('purpose', 'batch');
    form.append('file', new Blob([lines.join('\n')]), 'lines.jsonl');
    const file = (await (await bed.fetch('/v1/files', { method: 'POST', body: form })).json()) as { id: string };
    const command = { input_file_id: file.id, endpoint: url, completion_window: '24h' };
    const { id } = (await (await bed.post('/v1/batches', command)).json()) as { id: string };
    return async () => ((await (await bed.fetch(`/v1/batches/${id}`)).json()) as { status: string }).status;
  }
  const chat = (content: string) => ({ model: CHAT, max_tokens: 5, messages: [{ role: 'user', content }] });
  const openStream = () => bed.post('/v1/chat/completions', { ...chat('Hi'), stream: true });

  it('run at full concurrency beside a stream of another model', async () => {
    bed.chat.behaviour.stallAfterChunks = 3;
    const stream = await openStream();
    hold(bed.embedding);
    const status = await order('/v1/embeddings', (index) => ({ model: EMBEDDING, input: `text ${index}` }));
    await expect.poll(() => bed.embedding.requests.length).toBe(16);
    release();
    await expect.poll(status).toBe('completed');
    await stream.body?.cancel();
    bed.chat.behaviour.stallAfterChunks = undefined;
  });

  it('take a quarter of the slots beside a stream of the same model', async () => {
    const { promise: streamed, resolve: endStream } = Promise.withResolvers<void>();
    bed.chat.script.push(async (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      response.write('data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n');
      await streamed;
      const usage = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 };
      response.end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
    });
    const stream = await openStream();
    hold(bed.chat);
    const status = await order('/v1/chat/completions', (index) => chat(`Hi ${index}`));
    await expect.poll(() => bed.chat.requests.length).toBe(4);
    endStream();
    await stream.text();
    // They get more when it has ended.
    await expect.poll(() => bed.chat.requests.length).toBeGreaterThan(4);
    release();
    await expect.poll(status).toBe('completed');
  });

  it('leave a quarter of the slots of an upstream to interactive requests', async () => {
    const upstream = await startFakeUpstream('vllm');
    const outer = bed;
    bed = await startHttpBed({
      ...SETTINGS,
      upstreams: [{ model: CHAT, url: upstream.url, kind: 'vllm', max_concurrency: 4 }],
    });
    try {
      hold(upstream);
      const status = await order('/v1/chat/completions', (index) => chat(`Hi ${index}`));
      await expect.poll(() => upstream.requests.length).toBe(3);
      const answer = bed.post('/v1/chat/completions', chat('now'));
      await expect.poll(() => upstream.requests.length).toBe(4);
      release();
      expect((await answer).status).toBe(200);
      await expect.poll(status).toBe('completed');
    } finally {
      await bed[Symbol.asyncDispose]();
      await upstream.close();
      bed = outer;
    }
  });
});
