import { fromWireError, toWireError } from '@baobab/core/engine/wire/messages.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { describe, expect, it } from 'vitest';
import { describeFailure, LoadError } from './model-loader.ts';
import { EngineCrash } from './process/pending-calls.ts';

const during = async (stage: 'weights' | 'memory' | 'start', cause: unknown) => {
  const error = await LoadError.during(stage, Promise.reject(cause)).catch((caught: unknown) => caught);
  return describeFailure('acme/tiny', error);
};

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
