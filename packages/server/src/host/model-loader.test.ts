import { type MemoryFacts, PROCESSOR } from '@baobab/core/engine/driver.ts';
import { fromWireError, toWireError } from '@baobab/core/engine/wire/messages.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { describe, expect, it } from 'vitest';
import { createMemoryBudget, type MemoryHolder } from './memory-budget.ts';
import type { Model } from './model.ts';
import { describeFailure, LoadError, reserve } from './model-loader.ts';
import { EngineCrash } from './process/pending-calls.ts';

const during = async (stage: 'weights' | 'memory' | 'start', cause: unknown) => {
  const error = await LoadError.during(stage, Promise.reject(cause)).catch((caught: unknown) => caught);
  return describeFailure('acme/tiny', error);
};

/** A model whose contexts take a megabyte each, and the rest of it ten. At least one context is needed. */
async function reserveWithin(limitMb: number) {
  const MB = 1024 * 1024;
  const log: string[] = [];
  let aside = 0;
  const holder: MemoryHolder = {
    slug: 'acme/tiny',
    lastUsedAt: 0,
    usedBytes: async () => 0,
    setAside: (bytes) => {
      aside = bytes / MB;
    },
    idle: () => false,
    evict: async () => {},
  };
  const memory = createMemoryBudget(limitMb * MB, () => []);
  const less = ({ layout, ...facts }: MemoryFacts): MemoryFacts | undefined => {
    const parallelSequences = layout.parallelSequences - 1;
    return parallelSequences === 0 ? undefined : { ...facts, layout: { ...layout, parallelSequences } };
  };
  const room = await reserve(
    {
      model: { entry: { slug: 'acme/tiny' }, version: { version: '2026-01-01' } } as Model,
      memory,
      videoMemory: () => memory,
      estimateBytes: async ({ layout: { parallelSequences } }) => ({
        totalBytes: (10 + parallelSequences) * MB,
        contextBytes: parallelSequences * MB,
      }),
      estimateVideoBytes: async () => 0,
      needsAllVideoBytes: false,
      withLessContext: less,
      logger: {
        info: (_: object, text: string) => log.push(text),
        warn: (_: object, text: string) => log.push(text),
      } as unknown as Parameters<typeof reserve>[0]['logger'],
    },
    { holder, videoHolder: holder },
    {
      accelerator: PROCESSOR,
      patience: new AbortController().signal,
      directory: '/nowhere',
      layout: { processes: 1, threads: 1, parallelSequences: 4, slots: 4 },
      contextLength: 2048,
    },
  );
  return { aside, sequences: room.layout.parallelSequences, log };
}

describe('the memory of a model', () => {
  it('is set aside for all of its contexts, and told before it loads', async () => {
    const { log, ...room } = await reserveWithin(20);
    expect(room).toEqual({ aside: 14, sequences: 4 });
    expect(log).toEqual([expect.stringContaining('memory of a model')]);
  });

  it('is set aside for fewer where it does not suffice, with a warning', async () => {
    const { log, ...room } = await reserveWithin(12);
    expect(room).toEqual({ aside: 12, sequences: 2 });
    expect(log[1]).toContain('a part of the contexts only');
  });

  it('is refused where not even one fits', async () => {
    await expect(reserveWithin(10)).rejects.toMatchObject({ code: 'model_unavailable' });
  });
});

describe('why a model did not load', () => {
  it('is for operators what the weights store found, and for clients its short form', async () => {
    const cause = new Error('there is nothing at /srv/models/tiny');
    const failure = await during(
      'weights',
      errors.modelUnavailable('acme/tiny', 'its weights are not installed', cause),
    );
    expect(failure.reason).toBe('there is nothing at /srv/models/tiny');
    expect(failure.remedy).toContain('npx baobab models pull acme/tiny');
    expect(failure.clientError.message).toContain('its weights are not installed');
    expect(failure.clientError.message).not.toContain('/srv');
  });

  it('is what the driver found in its engine process', async () => {
    const cause = new Error('Invalid GGUF magic');
    const thrown = errors.modelUnavailable('acme/tiny', 'its weights could not be loaded', cause);
    const { reason, remedy } = await during('start', fromWireError(toWireError(thrown)));
    expect(reason).toBe('Invalid GGUF magic');
    expect(remedy).toContain('npx baobab models verify acme/tiny');
  });

  it('is how the engine process ended', async () => {
    const { reason, remedy, clientError } = await during('start', new EngineCrash('it did not load within 300 s'));
    expect(reason).toBe('its engine process ended while it loaded: it did not load within 300 s');
    expect(remedy).toContain('engines.load_timeout_seconds');
    expect(clientError.code).toBe('model_unavailable');
  });

  it('is the memory that it needs', async () => {
    const { reason, remedy } = await during('memory', errors.modelUnavailable('acme/tiny', 'it needs about 9 MB'));
    expect(reason).toContain('it needs about 9 MB');
    expect(remedy).toContain('models.memory_budget_mb');
  });
});
