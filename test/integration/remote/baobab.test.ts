import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import type { ChatEvent, ChatRequest } from '../../../packages/core/src/engine/engine.ts';
import { callContext } from '../../../packages/core/src/engine/testing/call-context.ts';
import { pulled } from '../../../packages/core/src/engine/testing/pulled-generation.ts';
import {
  createRemoteModel,
  type RemoteCalls,
  type RemoteModel,
  type RemoteTask,
} from '../../../packages/server/src/upstreams/remote-model.ts';
import { countFakeTokens } from '../../fixtures/fake-encoder.ts';
import { type FakeUpstream, startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import { collect, noUpstreamMetrics } from '../../fixtures/remote-bench.ts';

/** A second Baobab, in a process of its own, that gets its answers from fake upstreams: no weights are needed. */
const KEY = 'second-baobab-key-0123456789';
const CHAT = 'qwen/qwen2.5-0.5b-instruct';
const EMBEDDING = 'baai/bge-m3';
const RERANK = 'baai/bge-reranker-v2-m3';

let directory: string;
let fakes: Record<'chat' | 'embedding' | 'rerank', FakeUpstream>;
let second: { process: ChildProcess; url: string };
const models: RemoteModel[] = [];

async function startSecond(): Promise<{ process: ChildProcess; url: string }> {
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, '../../../packages/server/src/main.ts'), 'serve', '--port', '0'],
    {
      cwd: directory,
      env: {
        PATH: process.env.PATH,
        BAOBAB_DATA_DIR: join(directory, 'data'),
        BAOBAB_FIRST_KEY: KEY,
        BAOBAB_LOG_LEVEL: 'warn',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  for await (const line of createInterface({ input: child.stdout })) {
    const address = /serves on (http:\S+)/.exec(line)?.[1];
    if (address === undefined) continue;
    // A full pipe would block it.
    child.stdout.resume();
    return { process: child, url: `${address}/v1` };
  }
  throw new Error('the second Baobab did not start');
}

function remoteModel(slug: string, task: RemoteTask, apiKey = KEY): RemoteModel {
  const model = createRemoteModel({
    slug,
    version: '1',
    task,
    contextLength: 8192,
    ownRegion: 'local',
    clock: { now: Date.now },
    metrics: noUpstreamMetrics,
    logger: { info() {}, warn() {} },
    upstreams: [
      {
        model: slug,
        url: second.url,
        kind: 'baobab',
        apiKey,
        maxConcurrency: 64,
        connectTimeoutMs: 5_000,
        firstByteTimeoutMs: 20_000,
        totalTimeoutMs: 60_000,
      },
    ],
  });
  models.push(model);
  return model;
}

function remote(slug: string, task: RemoteTask): RemoteCalls {
  using lease = remoteModel(slug, task).acquire(context(), undefined, false);
  if (lease === undefined) throw new Error('the model has no upstream');
  return lease.engine;
}

const context = (signal?: AbortSignal) => callContext(signal, { requestId: 'req_outer' });

function generate(request: ChatRequest, signal?: AbortSignal) {
  return pulled(remote(CHAT, 'chat').chat, request, context(signal));
}

const hello: ChatRequest = { prompt: { messages: [{ role: 'user', content: 'Hi' }] }, maxTokens: 20 };
const textOf = (events: readonly ChatEvent[]): string =>
  events.flatMap((event) => (event.type === 'text-delta' ? [event.text] : [])).join('');

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'baobab-second-'));
  const [chat, embedding, rerank] = await Promise.all([
    startFakeUpstream('vllm'),
    startFakeUpstream('tei', { dimensions: 1024, contextLength: 8192 }),
    startFakeUpstream('vllm'),
  ]);
  fakes = { chat, embedding, rerank };
  const upstreams = [
    { model: CHAT, url: chat.url, kind: 'vllm' },
    { model: EMBEDDING, url: embedding.url, kind: 'tei' },
    { model: RERANK, url: rerank.url, kind: 'vllm' },
  ];
  await writeFile(join(directory, 'baobab.yaml'), stringify({ upstreams }));
  second = await startSecond();
});

afterAll(async () => {
  await Promise.all(models.map((model) => model[Symbol.asyncDispose]()));
  if (second.process.exitCode === null && second.process.signalCode === null) {
    second.process.kill();
    await once(second.process, 'exit');
  }
  await Promise.all(Object.values(fakes).map((fake) => fake.close()));
  await rm(directory, { recursive: true, force: true });
});

describe('a second Baobab as upstream', () => {
  it('streams a chat with exact usage', async () => {
    const events = await collect(generate(hello));
    expect(textOf(events)).toBe('Hello from the other side.');
    expect(events.at(-1)).toMatchObject({
      type: 'end',
      reason: 'stop',
      usage: { promptTokens: 9, completionTokens: 6 },
    });
  });

  it('embeds a large request in order', async () => {
    const inputs = Array.from({ length: 300 }, (_, i) => `text ${i}`);
    const result = await remote(EMBEDDING, 'embedding').embedding?.embed({ inputs }, context());
    expect(result?.dimensions).toBe(1024);
    expect(result?.vectors).toHaveLength(300 * 1024);
    expect(result?.tokens.reduce((a, b) => a + b)).toBe(inputs.reduce((sum, text) => sum + countFakeTokens(text), 0));
    const [last] =
      (await remote(EMBEDDING, 'embedding').embedding?.embed({ inputs: ['text 299'] }, context()))?.vectors ?? [];
    expect(result?.vectors[299 * 1024]).toBeCloseTo(last ?? 0, 6);
  });

  it('reranks', async () => {
    const documents = ['a car', 'a green tree'];
    const result = await remote(RERANK, 'cross-encoder').rerank?.rerank({ query: 'green tree', documents }, context());
    expect([...(result?.scores ?? [])]).toEqual([0, 1]);
  });

  it('names an input that is too long, through both', async () => {
    const inputs = ['short', 'word '.repeat(9_000)];
    await expect(remote(EMBEDDING, 'embedding').embedding?.embed({ inputs }, context())).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'inputs[1]',
    });
  });

  it('is seen as down when it refuses our key', async () => {
    const model = remoteModel(CHAT, 'chat', 'wrong-key-0123456789');
    await expect.poll(() => model.regions()).toEqual([]);
    expect(model.health()[0]?.lastError).toContain('401');
  });

  it('stops its own upstream when our client disconnects', async () => {
    fakes.chat.behaviour.stallAfterChunks = 4;
    const seen = fakes.chat.requests.length;
    const controller = new AbortController();
    const generation = generate(hello, controller.signal);
    const run = async (): Promise<void> => {
      for await (const event of generation) if (event.type === 'text-delta') controller.abort();
    };
    await expect(run()).rejects.toMatchObject({ code: 'client_cancelled' });
    await fakes.chat.until(() => fakes.chat.requests[seen]?.aborted === true);
    fakes.chat.behaviour.stallAfterChunks = undefined;
  });

  it('that is killed mid-stream ends it with an error after the delivered text', async () => {
    fakes.chat.behaviour.stallAfterChunks = 4;
    const given: ChatEvent[] = [];
    const generation = generate(hello);
    const run = async (): Promise<void> => {
      for await (const event of generation) {
        given.push(event);
        if (textOf(given) === 'Hello from the') second.process.kill('SIGKILL');
      }
    };
    await expect(run()).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(textOf(given)).toBe('Hello from the');
    expect(generation.usageSoFar().completionTokens).toBe(3);
  });
});
