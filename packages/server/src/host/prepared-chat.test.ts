import type { ChatRequest, EngineModel } from '@baobab/core/engine/engine.ts';
import { pulled, scriptedChat } from '@baobab/core/engine/testing/pulled-generation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { describe, expect, it } from 'vitest';
import { withPreparedChat } from './prepared-chat.ts';

const context = {
  requestId: 'r',
  accountId: 'a',
  keyId: 'k',
  priority: 'interactive' as const,
  signal: new AbortController().signal,
};
const usage = { promptTokens: 3, completionTokens: 1, cachedTokens: 0 };
const request: ChatRequest = { prompt: { text: 'hello' } };

function engine(seen: ChatRequest[]): EngineModel {
  return {
    countTokens: async () => 0,
    chat: scriptedChat(async function* (given) {
      seen.push(given);
      yield { type: 'end', reason: 'stop', usage };
    }, usage),
    [Symbol.asyncDispose]: async () => {},
  };
}

describe('a model with prepared chat', () => {
  it('sends the prepared request to the engine', async () => {
    const seen: ChatRequest[] = [];
    const { chat } = withPreparedChat(engine(seen), {
      prepare: async (given) => ({ ...given, prepared: 'grammar' }),
      close: async () => {},
    });
    const generation = pulled(chat, request, context);
    expect(generation.usageSoFar().promptTokens).toBe(0);
    for await (const event of generation) expect(event.type).toBe('end');
    expect(seen).toEqual([{ ...request, prepared: 'grammar' }]);
    expect(generation.usageSoFar()).toEqual(usage);
  });

  it('keeps refused requests away from the engine', async () => {
    const seen: ChatRequest[] = [];
    const { chat } = withPreparedChat(engine(seen), {
      prepare: async () => {
        throw errors.unsupportedParameter(['format', 'schema'], 'too complex');
      },
      close: async () => {},
    });
    await expect(Array.fromAsync(pulled(chat, request, context))).rejects.toMatchObject({ status: 422 });
    expect(seen).toEqual([]);
  });
});
