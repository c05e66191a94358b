import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { ChatRequest } from '../../../packages/core/src/engine/engine.ts';
import { pulled } from '../../../packages/core/src/engine/testing/pulled-generation.ts';
import {
  alive,
  CHAT,
  callContext,
  capability,
  embed,
  engineBed,
  testModel,
  until,
  use,
} from '../../fixtures/engine-bed.ts';

const chat = testModel('test/chat', CHAT);

describe('a crash of an engine process', () => {
  it('in the middle of 50 requests fails none of them, and the process is back within seconds', async () => {
    await using bed = engineBed();
    const other = testModel('test/other');
    await bed.embed(['warm']);
    await bed.registry.warm([other]);
    const [victim = 0] =
      (await bed.registry.list()).find(({ model }) => model.startsWith('test/echo'))?.processIds ?? [];

    const requests = Array.from({ length: 50 }, (_, n) => bed.embed(['wait-for:end', `request ${n}`]));
    const elsewhere = Array.from({ length: 20 }, () =>
      use(bed.registry, { model: other }, (engine) =>
        capability(engine.embedding).embed({ inputs: ['slow:100'] }, callContext()),
      ),
    );
    await until(async () => (await bed.registry.list())[0]?.inFlight === 50);
    process.kill(victim, 'SIGKILL');
    bed.touch('end');

    const results = await Promise.all(requests);
    expect(results.map(({ tokens }) => tokens[1])).toEqual(requests.map((_, n) => `request ${n}`.length));
    expect(await Promise.all(elsewhere)).toHaveLength(20);
    await until(async () => (await bed.registry.list())[0]?.processIds.length === 2);
    expect(alive(victim)).toBe(false);
    expect(bed.registry.status('test/echo@2026-01-01')).toMatchObject({ status: 'ready' });
  });

  it('is retried once on another process', async () => {
    await using bed = engineBed();
    expect(await bed.embed(['crash-once:mark'])).toMatchObject({ tokens: [15] });
  });

  it('that repeats fails only the request that causes it, with 503', async () => {
    await using bed = engineBed();
    await bed.embed(['warm']);
    const poison = expect(bed.embed(['crash'])).rejects.toMatchObject({ code: 'model_unavailable', status: 503 });
    await poison;
    expect(await bed.embed(['fine'])).toMatchObject({ tokens: [4] });
  });

  it('before the first event of a stream is retried, after it ends the stream with an error', async () => {
    await using bed = engineBed();
    using lease = await bed.registry.acquire(chat, callContext());
    const generate = (request: ChatRequest) => pulled(lease.engine.chat, request, callContext());
    const early: string[] = [];
    for await (const { type } of generate({ prompt: { text: 'crash-once:mark' } })) early.push(type);
    expect(early).toEqual(['start', 'end']);
    const generation = generate({ prompt: { text: 'crash-after:3' } });
    const seen: string[] = [];
    const read = async () => {
      for await (const event of generation) seen.push(event.type);
    };
    await expect(read()).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(seen).toEqual(['start', 'text-delta', 'text-delta', 'text-delta']);
    expect(generation.usageSoFar().completionTokens).toBe(3);
  });

  it('again and again makes the model unavailable with the reason, and a trial after the pause brings it back', async () => {
    await using bed = engineBed({ restarts: { cooldownMs: 3_000 } });
    await bed.embed(['warm']);
    const name = 'test/echo@2026-01-01';
    while (bed.registry.status(name).status === 'ready') await bed.embed(['crash']).catch(() => {});
    expect(bed.registry.status(name)).toEqual({
      status: 'unavailable',
      reason: expect.stringContaining('its engine crashed too often (3 in a row)'),
    });
    const refusal = { code: 'model_unavailable', retryAfterSeconds: expect.any(Number) };
    await expect(bed.embed(['fine'])).rejects.toMatchObject(refusal);
    await until(() => bed.registry.status(name).status === 'cold');
    expect(await bed.embed(['fine'])).toMatchObject({ tokens: [4] });
    expect(bed.registry.status(name).status).toBe('ready');
  });
});

describe('a lease', () => {
  it('that outlives its engine fails at once instead of waiting for ever', async () => {
    await using bed = engineBed({ restarts: { crashLimit: 1 } });
    using lease = await bed.registry.acquire(bed.model, callContext());
    await expect(embed(lease.engine, ['crash'])).rejects.toMatchObject({ code: 'model_unavailable' });
    await expect(embed(lease.engine, ['again'])).rejects.toThrow('its engine crashed too often (1 in a row)');
  });
});

describe('a hang', () => {
  it('of the event loop gets the process killed, and what it hung on is not tried again', async () => {
    await using bed = engineBed({ processes: 1, settings: { hangTimeoutSeconds: 1 } });
    await bed.embed(['warm']);
    const spinning = expect(bed.embed(['spin'])).rejects.toMatchObject({ code: 'model_unavailable' });
    await spinning;
    expect(bed.logged.filter((line) => line.includes('it made no progress for 1 s'))).toHaveLength(1);
    expect(await bed.embed(['fine'])).toMatchObject({ tokens: [4] });
    expect(bed.loads()).toBe(2);
  });

  it('of a call that waits for nothing gets the process killed', async () => {
    await using bed = engineBed({ processes: 1, settings: { hangTimeoutSeconds: 1 } });
    await expect(bed.embed(['stuck'])).rejects.toMatchObject({ code: 'model_unavailable' });
    using lease = await bed.registry.acquire(chat, callContext());
    const stuck = pulled(lease.engine.chat, { prompt: { text: 'stuck' } }, callContext());
    await expect(Array.fromAsync(stuck)).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(bed.logged.filter((line) => line.includes('it made no progress for 1 s'))).toHaveLength(2);
  });

  it('of a cancelled call that goes on computing gets the process killed', async () => {
    await using bed = engineBed({ processes: 1, settings: { hangTimeoutSeconds: 1 } });
    const client = new AbortController();
    await bed.embed(['warm']);
    const [pid = 0] = await bed.pids();
    const gone = expect(bed.embed(['deaf'], callContext({ signal: client.signal }))).rejects.toMatchObject({
      code: 'client_cancelled',
    });
    await until(async () => (await bed.registry.list())[0]?.inFlight === 1);
    client.abort();
    await gone;
    await until(() => !alive(pid));
    expect(bed.logged.some((line) => line.includes('did not stop a cancelled request'))).toBe(true);
  });

  it('while loading ends at the load timeout', async () => {
    await using bed = engineBed({ settings: { loadTimeoutSeconds: 0.5 } });
    bed.touch('hang-on-load');
    await expect(bed.embed(['x'])).rejects.toThrow('it did not load within 0.5 s');
  });
});

describe('engine processes', () => {
  it.each(['idle', 'spin'])('do not outlive a server that is killed (%s)', async (state) => {
    const script = fileURLToPath(new URL('../../fixtures/engine-owner.ts', import.meta.url));
    const server = spawn(process.execPath, [script, state], { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      const [line] = await once(server.stdout, 'data');
      const owned: { pids: number[]; directory: string } = JSON.parse(String(line));
      expect(owned.pids).toHaveLength(2);
      expect(owned.pids.every(alive)).toBe(true);
      server.kill('SIGKILL');
      await until(() => !owned.pids.some(alive));
      rmSync(owned.directory, { recursive: true });
    } finally {
      server.kill('SIGKILL');
    }
  });
});
