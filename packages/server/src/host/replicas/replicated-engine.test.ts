import type { ChatPreparation } from '@baobab/core/engine/driver.ts';
import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { callContext } from '@baobab/core/engine/testing/call-context.ts';
import { pulled } from '@baobab/core/engine/testing/pulled-generation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { noMetrics } from '../metrics.ts';
import type { EngineProcess } from '../process/engine-process.ts';
import { createPlacement } from './placement.ts';
import { checkImages, checkInputs, ReplicatedEngine, splitInputs, withRequestIndex } from './replicated-engine.ts';

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
  expect(() => checkImages({ prompt: { messages: messages.slice(0, 1) } }, { images: false })).not.toThrow();
  expect(() => checkImages({ prompt: { text: 'Hi' } }, { images: false })).not.toThrow();
  expect(() => checkImages({ prompt: { messages } }, { images: false })).toThrow(
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

const shape = (inputs: readonly string[], processes: number) =>
  splitInputs(inputs, processes).map(({ start, end }) => end - start);

describe('chunks', () => {
  it('leave a small request whole', () => {
    expect(shape(Array(15).fill('short'), 2)).toEqual([15]);
  });

  it('give every process a share of a middling request', () => {
    expect(shape(Array(32).fill('short'), 2)).toEqual([16, 16]);
    expect(shape(Array(32).fill('short'), 8)).toEqual([8, 8, 8, 8]);
  });

  it('give every process some of the images', () => {
    const image = { url: `data:image/png;base64,${'A'.repeat(1_000_000)}`, tokens: 256 };
    expect(splitInputs(['a', image], 8)).toHaveLength(1);
    expect(splitInputs(Array(16).fill(image), 2).map(({ start, end }) => end - start)).toEqual([8, 8]);
    expect(splitInputs(Array(16).fill(image), 32)).toHaveLength(16);
  });

  it('are more when the inputs are long, down to about 500 tokens each', () => {
    expect(shape(Array(64).fill('x'.repeat(500)), 16)).toHaveLength(15);
    expect(shape(Array(3).fill('x'.repeat(20_000)), 16)).toEqual([1, 1, 1]);
  });

  it('hold 256 inputs or about 65 000 characters', () => {
    expect(shape(Array(1_024).fill('short'), 2)).toEqual([256, 256, 256, 256]);
    expect(shape(Array(8).fill('x'.repeat(32_768)), 1)).toEqual([2, 2, 2, 2]);
    expect(shape(['x'.repeat(400_000), 'x'], 1)).toHaveLength(2);
  });

  it('say how long their longest input is, which cannot be cut', () => {
    const texts = [...Array(7).fill('short'), 'x'.repeat(2_048)];
    expect(splitInputs(texts, 1)[0]?.longest).toBe(1 / 32);
    expect(splitInputs(Array(8).fill('short'), 1)[0]?.longest).toBe(1 / 256);
    expect(splitInputs(['x'.repeat(65_536), 'short'], 1).map(({ longest }) => longest)).toEqual([1, 1 / 256]);
  });

  it('cover all inputs once and in order, whatever their sizes', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(100_000), { maxLength: 100 }), fc.integer({ min: 1, max: 8 }), (sizes, processes) => {
        const inputs = sizes.map((size) => 'x'.repeat(size));
        let next = 0;
        for (const { start, end } of splitInputs(inputs, processes)) {
          expect(start).toBe(next);
          expect(end).toBeGreaterThan(start);
          next = end;
        }
        expect(next).toBe(inputs.length);
      }),
      { numRuns: 30 },
    );
  });

  it('name an input by its place in the request, also in the message', () => {
    const error = withRequestIndex(errors.contextTooLong(['inputs', 3], 600, 512), 64);
    expect(error).toMatchObject({ param: 'inputs[67]', code: 'context_length_exceeded' });
    expect((error as Error).message).toContain("your 'inputs[67]' resulted in 600 tokens");
  });
});
