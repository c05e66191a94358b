import { setTimeout as delay } from 'node:timers/promises';
import type { Task } from '../launch/engine.ts';
import { MODEL, type TestService } from '../service.ts';
import {
  chatBody,
  type Feature,
  type FeatureContext,
  jsonOf,
  must,
  NotSupported,
  refused,
  type WireUsage,
} from './feature.ts';

const CHAT = '/v1/chat/completions';
const PATIENCE_MS = 20_000;
async function usageOf(service: TestService): Promise<WireUsage> {
  const start = new Date(Date.now() - 86_400_000).toISOString();
  const { totals } = (await (await service.fetch(`/v1/usage?start=${start}`)).json()) as { totals: WireUsage };
  return totals;
}

async function until(condition: () => Promise<boolean>, failure: string): Promise<number> {
  const started = Date.now();
  while (!(await condition())) {
    must(Date.now() - started < PATIENCE_MS, failure);
    await delay(100);
  }
  return Date.now() - started;
}

/** Requests that run in the engine, by its own account. Undefined if it does not say. */
async function runningRequests(address: string): Promise<number | undefined> {
  const answer = await fetch(`${address}/metrics`).catch(() => undefined);
  const text = answer?.ok ? await answer.text() : '';
  const line = /^(?:vllm:num_requests_running|llamacpp:requests_processing)\S* (\S+)$/m.exec(text);
  return line === null ? undefined : Number(line[1]);
}

/** Aborts a stream after its first piece of text. Returns what was billed for it. */
async function cancelStream({ service }: FeatureContext, body: object): Promise<WireUsage> {
  const before = await usageOf(service);
  const client = new AbortController();
  const answer = await service.fetch(CHAT, { method: 'POST', body: JSON.stringify(body), signal: client.signal });
  const reader = answer.body?.getReader();
  for (let text = ''; !/"content":"[^"]/.test(text); ) {
    const { value, done } = (await reader?.read()) ?? { done: true, value: undefined };
    must(!done, 'the stream ended before it was cancelled');
    text += Buffer.from(value ?? []).toString('utf8');
  }
  client.abort();
  let after = before;
  await until(async () => {
    after = await usageOf(service);
    return after.prompt_tokens > before.prompt_tokens;
  }, 'a cancelled stream was not billed');
  return {
    prompt_tokens: after.prompt_tokens - before.prompt_tokens,
    completion_tokens: after.completion_tokens - before.completion_tokens,
    cache_read_tokens: after.cache_read_tokens - before.cache_read_tokens,
  };
}

const bodies: Record<Task, [string, object]> = {
  chat: [CHAT, chatBody({ max_tokens: 2 })],
  embedding: ['/v1/embeddings', { model: MODEL, input: 'a' }],
  rerank: ['/v1/rerank', { model: MODEL, query: 'a', documents: ['b'] }],
};

async function crashAndRecover({ service, model, restart }: FeatureContext): Promise<string> {
  const [path, body] = bodies[model.task];
  await restart(async () => {
    const answer = await service.post(path, body);
    refused(answer, 503, 'model_unavailable');
    must(answer.headers.get('retry-after') !== null, 'no Retry-After');
  });
  const waitedMs = await until(async () => (await service.post(path, body)).status === 200, 'it did not recover');
  return `recovers in ${(waitedMs / 1000).toFixed(1)} s`;
}

const crash = (task: Task): Feature => ({ name: `crash and recovery, ${task}`, task, check: crashAndRecover });

export const serverFeatures: readonly Feature[] = [
  {
    name: 'cancelled stream stops the engine',
    task: 'chat',
    async check(context) {
      const messages = [{ role: 'user', content: 'Count from one to a thousand in words.' }];
      const body = chatBody({ messages, max_tokens: 900, stream: true, temperature: 1 });
      const billed = await cancelStream(context, body);
      must(billed.completion_tokens > 0, 'no completion tokens were billed');
      if ((await runningRequests(context.engineAddress)) === undefined) return 'billed; the engine does not say';
      const ms = await until(
        async () => (await runningRequests(context.engineAddress)) === 0,
        'the engine went on generating',
      );
      return ms < 1_000 ? 'at once' : `after ${ms} ms`;
    },
  },
  {
    name: 'cancelled stream bills cached tokens',
    task: 'chat',
    async check(context) {
      const story = Array.from({ length: 80 }, (_, i) => `sentence ${i}`).join(', ');
      const messages = [{ role: 'user', content: `Go on: ${story}` }];
      const body = chatBody({ messages, max_tokens: 300, stream: true });
      const whole = jsonOf(await context.service.post(CHAT, { ...body, stream: false, max_tokens: 2 }));
      const again = jsonOf(await context.service.post(CHAT, { ...body, stream: false, max_tokens: 2 }));
      if (again.usage.cache_read_tokens === 0) throw new NotSupported('cached tokens are not reported');
      const billed = await cancelStream(context, body);
      if (context.kind === 'ollama') {
        const { prompt_tokens: tokens } = whole.usage;
        throw new NotSupported(`${billed.prompt_tokens} prompt tokens are estimated, ${tokens} were read`);
      }
      const expected = again.usage.cache_read_tokens;
      must(billed.prompt_tokens === whole.usage.prompt_tokens, `${billed.prompt_tokens} prompt tokens`);
      must(billed.cache_read_tokens === expected, `${billed.cache_read_tokens} of ${expected} cached tokens`);
      return `${expected} of ${billed.prompt_tokens}`;
    },
  },
  crash('chat'),
  crash('embedding'),
  crash('rerank'),
];
