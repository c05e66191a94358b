import { readFile } from 'node:fs/promises';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askEngines } from '../../packages/server/src/control/client.ts';
import { type RunningServer, startServer } from './start-server.ts';

const MODEL = 'huggingfacetb/smollm2-135m-instruct';
/** More than the model decodes side by side, so that some wait. */
const STREAMS = 10;

describe('clients that disconnect during an answer', () => {
  let server: RunningServer;
  let client: OpenAI;
  beforeAll(async () => {
    server = await startServer();
    client = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: server.apiKey, maxRetries: 0 });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const ask = { model: MODEL, messages: [{ role: 'user' as const, content: 'Count from one to a thousand.' }] };
  const short = { ...ask, temperature: 0, max_tokens: 4 };
  const engine = async () => (await askEngines(server.dataDir))?.find(({ model }) => model.startsWith(`${MODEL}@`));
  /** Without the weights: engines of other servers share them, and each counts its part, which changes with their number. */
  async function ownBytes(): Promise<number> {
    const statuses = ((await engine())?.processIds ?? []).map((pid) => readFile(`/proc/${pid}/status`, 'utf8'));
    const sizes = (await Promise.all(statuses)).map(
      (status) => Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024,
    );
    return sizes.reduce((sum, size) => sum + size, 0);
  }
  const cancelled = () => server.output().match(/"status":499/g)?.length ?? 0;
  async function usage() {
    const start = new Date(Date.now() - 86_400_000).toISOString();
    const response = await fetch(`${server.address}/v1/usage?start=${start}`, {
      headers: { authorization: `Bearer ${server.apiKey}` },
    });
    const { totals } = (await response.json()) as {
      totals: { requests: number; prompt_tokens: number; completion_tokens: number };
    };
    return totals;
  }

  async function leaveInTheMiddle(): Promise<void> {
    const before = cancelled();
    let started = 0;
    const leaving = new AbortController();
    const streams = Array.from({ length: STREAMS }, async () => {
      const stream = await client.chat.completions.create({ ...ask, stream: true }, { signal: leaving.signal });
      for await (const { choices } of stream) {
        if (choices[0]?.delta.content) started += 1;
        if (started === 3) leaving.abort();
      }
    });
    await Promise.allSettled(streams);
    await expect.poll(engine).toMatchObject({ inFlight: 0, queueDepth: 0 });
    await expect.poll(cancelled).toBe(before + STREAMS);
  }

  it('free their slots, are logged as 499 and are billed for what they used', async () => {
    const plain = await client.chat.completions.create(short);
    const paid = await usage();
    expect(paid).toMatchObject({ requests: 1, completion_tokens: 4, prompt_tokens: plain.usage?.prompt_tokens });

    await leaveInTheMiddle();
    const after = await usage();
    expect(after.requests).toBeGreaterThan(1);
    expect(after.requests).toBeLessThanOrEqual(1 + STREAMS);
    expect(after.completion_tokens - paid.completion_tokens).toBeGreaterThanOrEqual(3);
    // Generation stopped. The answers would have had thousands of tokens; how many came before the end depends on the machine.
    expect(after.completion_tokens - paid.completion_tokens).toBeLessThan(100 * STREAMS);
    expect(after.prompt_tokens % (plain.usage?.prompt_tokens ?? 1)).toBe(0);

    const again = await client.chat.completions.create(short);
    expect(again.choices[0]?.message.content).toBe(plain.choices[0]?.message.content);
    // Buffers that the first parallel run takes are kept; a second one must find them there.
    const memory = await ownBytes();
    expect(memory).toBeGreaterThan(0);
    await leaveInTheMiddle();
    expect(await ownBytes()).toBeLessThan(memory + 60_000_000);
  });
});
