import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ChatEvent, ChatRequest, TokenUsage } from '@baobab/core/engine/engine.ts';
import { scriptedChat } from '@baobab/core/engine/testing/pulled-generation.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { describe, expect, it } from 'vitest';
import { testModel } from '../../../../test/fixtures/engine-bed.ts';
import type { InferenceCall } from './call.ts';
import { createChat } from './chat.ts';
import type { DocumentsService } from './inputs/documents.ts';
import type { ImagesService } from './inputs/images.ts';
import type { BilledWork, Bounds } from './pipeline.ts';
import type { InferenceSession } from './session.ts';

const { entry: small, version } = testModel('acme/chat');
const entry = { ...small, contextLength: 2_048 };
const call = { signal: new AbortController().signal, principal: { account: { id: 'a' } } } as InferenceCall;
/** Every image has 414 tokens. */
const images: ImagesService = {
  check: async (_accountId, references) =>
    references.map(({ source }) => ({
      tokens: 414,
      bytes: 100,
      load: async () => ({ url: 'url' in source ? source.url : '', tokens: 414 }),
    })),
  load: async (_accountId, checked) => ({
    inputs: await Promise.all(checked.map(({ load }) => load())),
    [Symbol.dispose]() {},
  }),
};
/** Every document has 4000 characters. */
const documents: DocumentsService = { read: async (_call, references) => references.map(() => 'word'.repeat(1_000)) };
const prompt = { messages: [{ role: 'user' as const, content: 'Hi' }] };

/** An engine with one token for each answer, which counts how many run at once. */
function setUp(answer: (request: ChatRequest) => void = () => {}, afterText = () => {}, maxOutputTokens = 256) {
  const seen = { running: 0, most: 0, started: 0 };
  const settled: unknown[] = [];
  const estimates: (Bounds & { reserved: Bounds['most'] })[] = [];
  const usage: TokenUsage = { promptTokens: 3, completionTokens: 1, cachedTokens: 0 };
  async function* events(request: ChatRequest): AsyncGenerator<ChatEvent> {
    seen.started += 1;
    seen.most = Math.max(seen.most, ++seen.running);
    try {
      await nextTurn();
      answer(request);
      yield { type: 'text-delta', text: `${request.seed}` };
      afterText();
      yield { type: 'end', reason: 'stop', usage };
    } finally {
      seen.running -= 1;
    }
  }
  const chat = scriptedChat(events, usage);
  const session = {
    context: { requestId: 'req', accountId: 'a', keyId: 'k', priority: 'interactive', signal: call.signal },
    capability: () => chat,
    noteFirstToken() {},
    settle: async (used: unknown) => void settled.push(used),
  } as unknown as InferenceSession;
  const inference = {
    resolve: (_call: unknown, reference: string) => ({
      reference,
      entry: { ...entry, maxOutputTokens, capabilities: { ...entry.capabilities, vision: true } },
      version,
      regionPin: undefined,
    }),
    async run<Result>(_call: InferenceCall, work: BilledWork<Result>) {
      const model = inference.resolve(call, work.model);
      work.bound(model);
      using _inputs = await work.read?.(model);
      const bounds = work.bound(model);
      estimates.push({ ...bounds, reserved: work.reserve?.(model) ?? bounds.most });
      return await work.run(session);
    },
  };
  return { chat: createChat({ inference, images, documents }), seen, settled, estimates };
}

describe('an estimate', () => {
  it('reserves the answer that was asked for or a step, and takes a quarter of a usual one from the token limit', async () => {
    const { chat, estimates } = setUp(undefined, undefined, 8_000);
    const ask = (maxTokens?: number) =>
      chat.generate(call, { model: entry.slug, choices: 2, request: { prompt, maxTokens } }, () => {});
    await ask();
    await ask(100);
    await chat.generate(
      call,
      { model: entry.slug, choices: 1, lowersMaxTokens: true, request: { prompt, maxTokens: 9_000 } },
      () => {},
    );
    const PROMPT_TOKENS = 5;
    const answers = estimates.map(({ tokens, most, reserved }) => [
      tokens - PROMPT_TOKENS,
      most.completionTokens,
      reserved.completionTokens,
    ]);
    expect(answers).toEqual([
      [512, 4_096, 512],
      [50, 200, 200],
      [256, 2_048, 512],
    ]);
  });

  it('of a prompt is at most the context, whatever its script', async () => {
    const { chat, estimates } = setUp();
    // Estimated as 3 000 tokens. An engine may count far fewer.
    const long = { messages: [{ role: 'user' as const, content: 'ሀ'.repeat(1_000) }] };
    await chat.generate(call, { model: entry.slug, choices: 1, request: { prompt: long, maxTokens: 40 } }, () => {});
    const most = { promptTokens: 2_048, completionTokens: 40 };
    expect(estimates).toEqual([{ tokens: 2_058, most, reserved: most }]);
    // The answer of count_tokens is not capped.
    expect(await chat.countTokens(call, { model: entry.slug, choices: 1, request: { prompt: long } })).toBe(3_004);
  });
});

describe('choices', () => {
  it('are generated two at a time, each with its own seed', async () => {
    const { chat, seen } = setUp();
    const texts: string[] = [];
    const usage = await chat.generate(
      call,
      { model: 'acme/chat', choices: 8, request: { prompt, seed: 10 } },
      (choice, event) => {
        if (event.type === 'text-delta') texts[choice] = event.text;
      },
    );
    expect(texts).toEqual(['10', '11', '12', '13', '14', '15', '16', '17']);
    expect(seen.most).toBe(2);
    expect(usage).toEqual({ promptTokens: 3, completionTokens: 8, cachedTokens: 0 });
  });

  it('are not started after one that failed', async () => {
    const { chat, seen } = setUp(({ seed }) => {
      if (seed === 1) throw new ApiError('validation_failed', 'no');
    });
    const command = { model: 'acme/chat', choices: 8, request: { prompt, seed: 0 } };
    await expect(chat.generate(call, command, () => {})).rejects.toMatchObject({ code: 'validation_failed' });
    expect(seen).toMatchObject({ running: 0 });
    expect(seen.started).toBeLessThan(8);
  });
});

describe('an engine that fails', () => {
  const fail = () => {
    throw new ApiError('model_unavailable', 'gone');
  };
  const generate = async (chat: ReturnType<typeof createChat>, request: ChatRequest, from = call): Promise<void> => {
    const command = { model: 'acme/chat', choices: 1, request };
    await expect(chat.generate(from, command, () => {})).rejects.toBeInstanceOf(ApiError);
  };

  it('is billed for the delivered part of a stream', async () => {
    const { chat, settled } = setUp(undefined, fail);
    await generate(chat, { prompt });
    expect(settled).toMatchObject([{ promptTokens: 3, completionTokens: 1 }]);
  });

  it('is not billed for an answer that the client does not get', async () => {
    const { chat, settled } = setUp(undefined, fail);
    await generate(chat, { prompt, wholeAnswer: true });
    expect(settled).toEqual([]);
  });

  it('is not billed for a stream without any text', async () => {
    const { chat, settled } = setUp(fail);
    await generate(chat, { prompt });
    expect(settled).toEqual([]);
  });

  it('is not billed for a stream of which the client saw nothing', async () => {
    const { chat, settled } = setUp(undefined, fail);
    const command = { model: 'acme/chat', choices: 1, request: { prompt } };
    await expect(chat.generate(call, command, () => 'withheld')).rejects.toBeInstanceOf(ApiError);
    expect(settled).toEqual([]);
  });

  it('is billed when the client left', async () => {
    const client = new AbortController();
    const { chat, settled } = setUp(undefined, () => {
      client.abort();
      fail();
    });
    await generate(chat, { prompt, wholeAnswer: true }, { ...call, signal: client.signal });
    expect(settled).toHaveLength(1);
  });

  it('is not billed for a whole answer that the shutdown cut off', async () => {
    const stop = new AbortController();
    const { chat, settled } = setUp(undefined, () => {
      stop.abort(new ApiError('model_unavailable', 'shutting down'));
      fail();
    });
    await generate(chat, { prompt, wholeAnswer: true }, { ...call, signal: stop.signal });
    expect(settled).toEqual([]);
  });
});

describe('refusals', () => {
  it('name the limit of the answer by its field', async () => {
    const { chat } = setUp();
    const command = { model: 'acme/chat', choices: 1, request: { prompt, maxTokens: 500 } };
    await expect(chat.generate(call, command, () => {})).rejects.toMatchObject({
      code: 'context_length_exceeded',
      field: ['maxTokens'],
      message: expect.stringContaining("'maxTokens' is 500"),
    });
  });

  it('of prompts that cannot fit come before the engine is called', async () => {
    const { chat, seen } = setUp();
    const request = { prompt: { text: 'x'.repeat(1_000_000) } };
    await expect(chat.generate(call, { model: 'acme/chat', choices: 1, request }, () => {})).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'prompt',
    });
    expect(seen.started).toBe(0);
  });
});

describe('images', () => {
  it('are put into their messages, and their tokens are estimated', async () => {
    const requests: ChatRequest[] = [];
    const { chat, estimates } = setUp((request) => requests.push(request));
    const image = { source: { url: 'data:a' }, message: 0, at: 2, field: 'messages[0].content[1]' };
    const command = { model: 'acme/chat', choices: 1, request: { prompt, maxTokens: 4 } };
    await chat.generate(call, command, () => {});
    await chat.generate(call, { ...command, images: [image, { ...image, source: { url: 'data:b' } }] }, () => {});
    expect(requests[1]?.prompt).toEqual({
      messages: [
        {
          role: 'user',
          content: 'Hi',
          images: [
            { url: 'data:a', tokens: 414, at: 2 },
            { url: 'data:b', tokens: 414, at: 2 },
          ],
        },
      ],
    });
    const [without, both] = estimates.map(({ tokens }) => tokens);
    expect((both ?? 0) - (without ?? 0)).toBe(828);
    // Their size says little about what an engine makes of them.
    expect(estimates[1]?.reserved.promptTokens).toBe(entry.contextLength);
  });
});

describe('documents', () => {
  it('are put into their messages as text, which counts in the estimate', async () => {
    const requests: ChatRequest[] = [];
    const { chat, estimates } = setUp((request) => requests.push(request));
    const file = { source: { fileId: 'file_1' }, tag: 'file' as const, message: 0, at: 2, field: 'f' };
    const command = { model: 'acme/chat', choices: 1, request: { prompt, maxTokens: 4 } };
    await chat.generate(call, command, () => {});
    await chat.generate(call, { ...command, documents: [file] }, () => {});
    expect(requests[1]?.prompt).toEqual({ messages: [{ role: 'user', content: `Hi${'word'.repeat(1_000)}` }] });
    const [without, both] = estimates.map(({ tokens }) => tokens);
    expect((both ?? 0) - (without ?? 0)).toBe(1_000);
  });

  it('are refused when their text cannot fit', async () => {
    const { chat, seen } = setUp();
    const file = { source: { fileId: 'file_1' }, tag: 'file' as const, message: 0, at: 2, field: 'f' };
    const many = Array.from({ length: 1_000 }, () => file);
    const command = { model: 'acme/chat', choices: 1, request: { prompt }, documents: many };
    await expect(chat.generate(call, command, () => {})).rejects.toMatchObject({ code: 'context_length_exceeded' });
    await expect(chat.countTokens(call, command)).rejects.toMatchObject({ code: 'context_length_exceeded' });
    expect(seen.started).toBe(0);
  });
});
