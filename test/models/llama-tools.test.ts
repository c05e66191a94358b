import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { getLlama, type Llama, LlamaLogLevel, type LlamaModel } from 'node-llama-cpp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { LoadSpec } from '../../packages/core/src/engine/driver.ts';
import type { ChatCapability, ChatEvent, ChatRequest } from '../../packages/core/src/engine/engine.ts';
import { pulled } from '../../packages/core/src/engine/testing/pulled-generation.ts';
import { createChatCapability } from '../../packages/engines/src/llama/chat.ts';
import type { LlamaOptions } from '../../packages/engines/src/llama/driver.ts';
import {
  GLM,
  GRANITE,
  LLAMA_3,
  MISTRAL_LIST,
  MISTRAL_MARKS,
  QWEN_CODER,
} from '../../packages/engines/src/llama/tools/testing/tool-templates.ts';
import { weights } from './weights.ts';

/** A control token of SmolLM2 that ends nothing. */
const CONTROL = { id: 5, text: '<file_sep>' };

let llama: Llama;
let spec: LoadSpec<LlamaOptions>;
let model: LlamaModel;

beforeAll(async () => {
  const weighed = await weights<LlamaOptions>('huggingfacetb/smollm2-135m-instruct');
  const options = { ...weighed.engine.options, stableOutputs: true };
  spec = { ...weighed, engine: { ...weighed.engine, options }, contextLength: 512 };
  llama = await getLlama({ build: 'never', maxThreads: 0, progressLogs: false, logLevel: LlamaLogLevel.error });
  model = await llama.loadModel({ modelPath: join(spec.directory, spec.engine.options.model) });
});

afterAll(async () => {
  await model.dispose();
  await llama.dispose();
});

/** Kept until the end: the model cannot be disposed of after a context of it was garbage collected. */
const opened = new Map<string, Promise<ChatCapability>>();

/** The model with another template than that of its file. */
function speaking(chatTemplate: string): Promise<ChatCapability> {
  const known = opened.get(chatTemplate);
  if (known !== undefined) return known;
  const chat = createChatCapability({
    model,
    spec,
    chatTemplate,
    randomSeed: () => 1,
    newCallId: () => `call_${randomUUID()}`,
  }).then((created) => created.chat);
  opened.set(chatTemplate, chat);
  return chat;
}

async function run(chat: ChatCapability, request: ChatRequest) {
  const generation = pulled(chat, request, {
    requestId: 'req_test',
    signal: new AbortController().signal,
    accountId: 'account',
    keyId: 'key_test',
    priority: 'interactive',
  });
  const events: ChatEvent[] = await Array.fromAsync(generation);
  const end = events.at(-1);
  if (end?.type !== 'end') throw new Error('The last event is not the end');
  const deltas = events.filter((event) => event.type === 'tool-call-delta');
  return {
    text: events.map((event) => (event.type === 'text-delta' ? event.text : '')).join(''),
    names: deltas.flatMap(({ name }) => name ?? []),
    /** Of the first call. */
    argumentsText: deltas.map(({ index, argumentsDelta }) => (index === 0 ? argumentsDelta : '')).join(''),
    reason: end.reason,
    usage: end.usage,
  };
}

const parameters = {
  type: 'object',
  properties: { unit: { enum: ['celsius', 'kelvin'] } },
  required: ['unit'],
  additionalProperties: false,
};
const valid = new Ajv2020().compile(parameters);
const tools = ['weather', 'weather_radar'].map((name) => ({ name, parameters }));
const question = { role: 'user' as const, content: 'How warm is it?' };
const asked: ChatRequest = { prompt: { messages: [question] }, tools, temperature: 0 };

describe('SmolLM2 with the tool calls of other models', () => {
  it.each([
    ['bare JSON', LLAMA_3],
    ['a list with ids', MISTRAL_LIST],
    ['arguments between tags', QWEN_CODER],
    ['tags directly after the name', GLM],
  ])('calls with valid arguments and reads the result: %s', async (_, template) => {
    const chat = await speaking(template);
    const first = await run(chat, { ...asked, toolChoice: 'required', maxTokens: 200 });
    expect(first).toMatchObject({ text: '', reason: 'tool_calls' });
    expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(first.names));
    expect(valid(JSON.parse(first.argumentsText)), first.argumentsText).toBe(true);

    const call = { id: 'call_0123456789', name: first.names[0] ?? '', arguments: first.argumentsText };
    const second = await run(chat, {
      ...asked,
      prompt: {
        messages: [
          question,
          { role: 'assistant', content: '', toolCalls: [call] },
          { role: 'tool', content: 'Sunny, 21 degrees.', toolCallId: call.id },
        ],
      },
      tools: undefined,
      maxTokens: 2,
    });
    // The call and its result were read: far more than the question alone has.
    expect(second.usage.promptTokens).toBeGreaterThan(40);
    expect(second).toMatchObject({ names: [], reason: expect.stringMatching(/^(stop|length)$/) });
  });

  it('makes the same call for the same seed, also with names outside the JSON', async () => {
    const chat = await speaking(MISTRAL_MARKS);
    const seeded = { ...asked, toolChoice: 'required' as const, temperature: 1.5, seed: 5 };
    const [first, again] = [await run(chat, seeded), await run(chat, seeded)];
    expect(valid(JSON.parse(first.argumentsText)), first.argumentsText).toBe(true);
    expect(again).toMatchObject({ names: first.names, argumentsText: first.argumentsText, reason: 'tool_calls' });
    expect(again.usage.cachedTokens).toBeGreaterThan(0);
  });

  it('writes text, numbers and objects between tags, the same for the same seed', async () => {
    const chat = await speaking(QWEN_CODER);
    const noteParameters = {
      type: 'object',
      properties: {
        kind: { enum: ['short', 'long', null] },
        level: { type: 'integer', minimum: 1, maximum: 5 },
        place: { type: 'object', properties: { city: { type: 'string', maxLength: 9 } }, required: ['city'] },
        title: { type: 'string', minLength: 3, maxLength: 20 },
      },
      required: ['kind', 'level', 'place', 'title'],
      additionalProperties: false,
    };
    const validNote = new Ajv2020().compile(noteParameters);
    const request = {
      ...asked,
      tools: [{ name: 'note', parameters: noteParameters }],
      toolChoice: { name: 'note' },
      temperature: 1,
      seed: 3,
    };
    const [first, again] = [await run(chat, request), await run(chat, request)];
    expect(first).toMatchObject({ text: '', names: ['note'], reason: 'tool_calls' });
    expect(validNote(JSON.parse(first.argumentsText)), first.argumentsText).toBe(true);
    expect(again.argumentsText).toBe(first.argumentsText);
  });

  it('ends a text argument at its closing tag', async () => {
    const chat = await speaking(GLM.replace('</arg_value>', CONTROL.text));
    const say = { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] };
    const request = { ...asked, tools: [{ name: 'say', parameters: say }], toolChoice: { name: 'say' }, maxTokens: 20 };
    const ended = await run(chat, { ...request, logitBias: new Map([[CONTROL.id, 100]]) });
    expect(ended).toMatchObject({ names: ['say'], argumentsText: '{"word": ""}', reason: 'tool_calls' });
    const endless = await run(chat, { ...request, logitBias: new Map([[CONTROL.id, -100]]) });
    expect(endless).toMatchObject({ argumentsText: expect.stringMatching(/^\{"word": "./), reason: 'length' });
  });

  it('starts a call with a control token, forced or chosen by the model', async () => {
    const chat = await speaking(GRANITE.replace('<|tool_call|>', CONTROL.text));
    const biased = { ...asked, logitBias: new Map([[CONTROL.id, 100]]), maxTokens: 60 };
    const forced = await run(chat, { ...biased, toolChoice: 'required' });
    const chosen = await run(chat, { ...biased, toolChoice: 'auto' });
    for (const answer of [forced, chosen]) {
      expect(answer).toMatchObject({ text: '', reason: 'tool_calls' });
      expect(valid(JSON.parse(answer.argumentsText)), answer.argumentsText).toBe(true);
    }
    expect(chosen.argumentsText).toBe(forced.argumentsText);
  });

  it('counts a control token inside a string by its text', async () => {
    const chat = await speaking(LLAMA_3);
    const sayParameters = {
      type: 'object',
      properties: { word: { type: 'string', minLength: 20, maxLength: 20 } },
      required: ['word'],
      additionalProperties: false,
    };
    const answer = await run(chat, {
      ...asked,
      tools: [{ name: 'say', parameters: sayParameters }],
      toolChoice: 'required',
      logitBias: new Map([[CONTROL.id, 100]]),
    });
    expect(JSON.parse(answer.argumentsText)).toEqual({ word: CONTROL.text.repeat(2) });
  });
});
