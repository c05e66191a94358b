import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { ModelEntry } from '../../packages/core/src/domain/model.ts';
import type { ChatEvent } from '../../packages/core/src/engine/engine.ts';
import { command } from '../../packages/server/src/programs/driver.ts';
import { alive, type BedOptions, callContext, engineBed, testModel, until, use } from '../fixtures/engine-bed.ts';

const PROGRAM = fileURLToPath(new URL('../fixtures/programs/fake-engine.ts', import.meta.url));
const NAME = 'test/program@2026-01-01';

/** A registry with one model that the fake program serves. */
function programBed(given: Omit<BedOptions, 'driver'> = {}, engine: object = {}) {
  const bed = engineBed({ driver: command, ...given });
  const options = {
    kind: 'llama-server',
    command: [process.execPath, PROGRAM, '--port', '{port}', '--folder', '{folder}', '--model', '{files.tiny.gguf}'],
    memoryMb: 64,
    ...engine,
  };
  const model = testModel('test/program', { driver: 'command', task: 'chat', options });
  const entry: ModelEntry = { ...model.entry, modality: 'chat', dimensions: null };
  const of = (name: string) => join(bed.directory, name);
  return {
    bed,
    model: { ...model, entry },
    starts: () => (existsSync(of('starts')) ? readFileSync(of('starts'), 'utf8').length : 0),
    helper: () => Number(readFileSync(of('helper'), 'utf8')),
    touch: (name: string) => writeFileSync(of(name), ''),
    async chat(content: string, context = callContext()) {
      const events: ChatEvent[] = [];
      let used: unknown;
      await use(bed.registry, { model: { ...model, entry }, context }, async ({ chat }) =>
        chat?.generate({ prompt: { messages: [{ role: 'user', content }] } }, context, {
          deliver: (event) => {
            events.push(event);
          },
          used: (usage) => {
            used = usage;
          },
        }),
      );
      return { text: events.map((event) => (event.type === 'text-delta' ? event.text : '')).join(''), used };
    },
    [Symbol.asyncDispose]: () => bed[Symbol.asyncDispose](),
  };
}

const USED = { promptTokens: 9, completionTokens: 3, cachedTokens: 4 };

describe('a program of the catalog', () => {
  it('starts once for all who wait, answers them, and ends with everything that it has started', async () => {
    await using own = programBed();
    expect(own.starts()).toBe(0);
    const answers = await Promise.all(Array.from({ length: 6 }, () => own.chat('Hi')));
    for (const answer of answers) expect(answer).toEqual({ text: 'One two three.', used: USED });
    expect(own.starts()).toBe(1);
    const [report] = await own.bed.registry.list();
    expect(report).toMatchObject({ model: NAME, status: 'ready', plannedBytes: 64 * 1024 * 1024, inFlight: 0 });
    expect(report?.memoryBytes).toBeGreaterThan(10 * 1024 * 1024);
    const [pid = 0] = report?.processIds ?? [];
    const helper = own.helper();
    expect([alive(pid), alive(helper)]).toEqual([true, true]);
    await own.bed.registry.unload(own.model);
    expect(own.bed.registry.status(NAME)).toEqual({ status: 'cold' });
    await until(() => !alive(pid) && !alive(helper));
    // A later request starts it again.
    expect(await own.chat('Hi')).toMatchObject({ text: 'One two three.' });
    expect(own.starts()).toBe(2);
  });

  it('gets a key of its own, and none of the variables of the server', async () => {
    process.env.SECRET_OF_THE_SERVER = 'x';
    await using own = programBed({}, { environment: ['OWN_PORT={port}', 'LITERAL={"a": 1}'] });
    const { text } = await own.chat('environment');
    delete process.env.SECRET_OF_THE_SERVER;
    expect(text.split(' ')).toEqual(expect.arrayContaining(['LLAMA_API_KEY', 'LITERAL', 'OWN_PORT', 'PATH']));
    expect(text).not.toContain('SECRET_OF_THE_SERVER');
    // It prints its key; the log hides it.
    expect(own.bed.logged.join('\n')).toMatch(/engine: loading \S+tiny\.gguf with the key \[hidden\]/);
  });

  it('is started again after a crash, and the request that had no answer yet runs there', async () => {
    await using own = programBed();
    expect(await own.chat('crash once')).toEqual({ text: 'One two three.', used: USED });
    expect(own.starts()).toBe(2);
    expect(own.bed.logged.join('\n')).toContain('an engine process ended');
  });

  it('fails a request whose answer has begun when it crashes, and what was used until then counts', async () => {
    await using own = programBed();
    let used: unknown;
    const context = callContext();
    const messages = [{ role: 'user' as const, content: 'crash late' }];
    const asked = use(own.bed.registry, { model: own.model, context }, async ({ chat }) =>
      chat?.generate({ prompt: { messages } }, context, {
        deliver() {},
        used: (usage) => {
          used = usage;
        },
      }),
    );
    await expect(asked).rejects.toMatchObject({
      code: 'model_unavailable',
      message: expect.stringContaining('its engine stopped while it worked on this request'),
    });
    expect(used).toMatchObject({ promptTokens: 9, completionTokens: 1 });
    expect(await own.chat('Hi')).toMatchObject({ text: 'One two three.' });
  });

  it('is killed and started again when it stops answering its health checks', async () => {
    await using own = programBed({ settings: { hangTimeoutSeconds: 2 } });
    await own.chat('Hi');
    const [pid = 0] = await own.bed.pids();
    process.kill(pid, 'SIGSTOP');
    expect(await own.chat('Hi')).toEqual({ text: 'One two three.', used: USED });
    expect(own.starts()).toBe(2);
    expect(own.bed.logged.join('\n')).toContain('it did not answer its health checks for 2 s');
  });

  it('is given up for a while when it crashes too often', async () => {
    await using own = programBed({ restarts: { crashLimit: 2, cooldownMs: 60_000 } });
    await expect(own.chat('crash')).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(own.starts()).toBe(2);
    await expect(own.chat('Hi')).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(own.bed.registry.status(NAME).status).toBe('unavailable');
  });

  it('is unloaded when it is idle', async () => {
    await using own = programBed({ settings: { idleUnloadSeconds: 0.5 } });
    await own.chat('Hi');
    await until(() => own.bed.registry.status(NAME).status === 'cold');
    await until(() => !alive(own.helper()));
  });

  it('is refused where it does not fit the memory for models', async () => {
    await using own = programBed({ settings: { memoryBudgetMb: 100 } }, { memoryMb: 200 });
    await expect(own.chat('Hi')).rejects.toMatchObject({
      code: 'model_unavailable',
      message: expect.stringContaining('it needs about 200 MB of memory, and models may use 100 MB in all'),
    });
    expect(own.starts()).toBe(0);
  });

  it('takes all of its part of the memory of GPUs, or does not start', async () => {
    const path = process.env.PATH;
    const tools = mkdtempSync(join(tmpdir(), 'baobab-gpu-'));
    writeFileSync(join(tools, 'nvidia-smi'), '#!/bin/sh\necho "10000, Test GPU"\n', { mode: 0o755 });
    process.env.PATH = `${tools}:${path}`;
    try {
      await using large = programBed({}, { videoMemoryMb: 9_500 });
      await expect(large.chat('Hi')).rejects.toMatchObject({
        message: expect.stringContaining('it needs about 9500 MB of GPU memory, and models may use 9200 MB in all'),
      });
      expect(large.starts()).toBe(0);
      await using small = programBed({}, { videoMemoryMb: 9_000 });
      await small.chat('Hi');
      const [report] = await small.bed.registry.list();
      expect(report?.device).toMatchObject({ backend: 'cuda', videoBytes: 9_000 * 1024 * 1024 });
    } finally {
      process.env.PATH = path;
      rmSync(tools, { recursive: true });
    }
  });

  it('that ends at its start is unavailable, and operators see what it printed', async () => {
    await using own = programBed({ settings: { retryUnavailableSeconds: 60 } });
    own.touch('refuse');
    const refused = await own.chat('Hi').catch((error: Error) => error);
    expect(refused).toMatchObject({ code: 'model_unavailable' });
    expect(String(refused)).toContain('it exited with code 3');
    expect(String(refused)).not.toContain('nonsense');
    const [report] = await own.bed.registry.list();
    expect(report?.reason).toContain('unknown model architecture: nonsense');
    // Its last lines count, also when it printed more than the log takes, and its key is hidden there too.
    expect(report?.reason).toContain('nonsense ([hidden])');
  });

  it.each(['loading', 'silent'])('that never becomes healthy (%s) is killed', async (how) => {
    await using own = programBed({}, { startTimeoutSeconds: 3 });
    own.touch(how);
    const refused = await own.chat('Hi').catch((error: Error) => error);
    expect(refused).toMatchObject({ code: 'model_unavailable' });
    expect(String(refused)).toContain('it was not ready within 3 s');
    if (existsSync(join(own.bed.directory, 'helper'))) await until(() => !alive(own.helper()));
  });

  it('that is not installed is named to operators, with what to do', async () => {
    await using own = programBed({}, { command: ['no-such-program', '{port}'] });
    const refused = await own.chat('Hi').catch((error: Error) => error);
    expect(refused).toMatchObject({ code: 'model_unavailable' });
    expect(String(refused)).not.toContain('no-such-program');
    const [report] = await own.bed.registry.list();
    expect(report?.reason).toContain("there is no program 'no-such-program' in /nowhere or on the PATH");
    expect(report?.reason).toContain('npx baobab engines build llama-server');
  });

  it('takes images only with their content', async () => {
    await using own = programBed();
    const messages = [
      { role: 'user' as const, content: 'x', images: [{ url: 'http://10.0.0.1/x.png', at: 0, tokens: 1 }] },
    ];
    const asked = use(own.bed.registry, { model: own.model }, async ({ chat }) =>
      chat?.generate({ prompt: { messages } }, callContext(), { deliver() {}, used() {} }),
    );
    await expect(asked).rejects.toMatchObject({ code: 'unsupported_parameter' });
  });
});
