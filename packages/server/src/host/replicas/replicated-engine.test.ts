import type { ChatPreparation } from '@baobab/core/engine/driver.ts';
import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { callContext } from '@baobab/core/engine/testing/call-context.ts';
import { pulled } from '@baobab/core/engine/testing/pulled-generation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { describe, expect, it } from 'vitest';
import { noMetrics } from '../metrics.ts';
import type { EngineProcess } from '../process/engine-process.ts';
import { createPlacement } from './placement.ts';
import { checkInputs, ReplicatedEngine, refuseImages } from './replicated-engine.ts';

const image = { url: 'data:image/png;base64,', tokens: 256 };

it('models that run here refuse images without an encoder for them, and name the input', () => {
  expect(() => checkInputs(['a', [1, 2]], { images: false })).not.toThrow();
  expect(() => checkInputs(['a', image], { images: false })).toThrow(
    expect.objectContaining({ code: 'unsupported_parameter', field: ['inputs', 1] }),
  );
});

it('models that run here take images with the request only', () => {
  expect(() => checkInputs(['a', image], { images: true })).not.toThrow();
  expect(() => checkInputs([{ ...image, url: 'https://images.test/cat.png' }], { images: true })).toThrow(
    expect.objectContaining({ code: 'unsupported_parameter', field: ['inputs', 0, 'image'] }),
  );
});

it('models that run here refuse images and name the message', () => {
  const messages = [
    { role: 'user' as const, content: 'Hi' },
    { role: 'user' as const, content: '', images: [{ ...image, at: 0 }] },
  ];
  expect(() => refuseImages({ prompt: { messages: messages.slice(0, 1) } })).not.toThrow();
  expect(() => refuseImages({ prompt: { text: 'Hi' } })).not.toThrow();
  expect(() => refuseImages({ prompt: { messages } })).toThrow(
    expect.objectContaining({ code: 'unsupported_parameter', field: ['messages', 1, 'content'] }),
  );
});

describe('a model with prepared chat', () => {
  const usage = { promptTokens: 3, completionTokens: 1, cachedTokens: 0 };
  const request: ChatRequest = { prompt: { text: 'hello' } };

  function engine(seen: ChatRequest[], prepare: ChatPreparation['prepare']) {
    const placement = createPlacement<EngineProcess>();
    const process: Pick<EngineProcess, 'generate'> = {
      async generate(given, _context, sink) {
        seen.push(given);
        await sink.deliver({ type: 'end', reason: 'stop', usage });
        sink.used(usage);
      },
    };
    placement.add(process as EngineProcess);
    return new ReplicatedEngine({
      slug: 'acme/model',
      name: 'acme/model@1',
      processes: 1,
      capabilities: ['chat'],
      placement,
      set: { answered() {}, stopped: false, async close() {} },
      preparation: { prepare, close: async () => {} },
      metrics: noMetrics,
    });
  }

  it('sends the prepared request to the engine', async () => {
    const seen: ChatRequest[] = [];
    const { chat } = engine(seen, async (given) => ({ ...given, prepared: 'grammar' }));
    const generation = pulled(chat, request, callContext());
    expect(generation.usageSoFar().promptTokens).toBe(0);
    for await (const event of generation) expect(event.type).toBe('end');
    expect(seen).toEqual([{ ...request, prepared: 'grammar' }]);
    expect(generation.usageSoFar()).toEqual(usage);
  });

  it('keeps refused requests away from the engine', async () => {
    const seen: ChatRequest[] = [];
    const { chat } = engine(seen, async () => {
      throw errors.unsupportedParameter(['format', 'schema'], 'too complex');
    });
    await expect(Array.fromAsync(pulled(chat, request, callContext()))).rejects.toMatchObject({ status: 422 });
    expect(seen).toEqual([]);
  });
});
