import type OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { MODEL, question, type SmallChat, short, textOf, useSmallChat } from './small-chat.ts';

const weatherFunction = {
  name: 'weather',
  description: 'Weather in a city',
  parameters: {
    type: 'object',
    properties: {
      city: { type: 'string', enum: ['Paris', 'Nairobi'] },
      days: { type: 'integer', minimum: 1, maximum: 7 },
    },
    required: ['city', 'days'],
    additionalProperties: false,
  },
};
const weather = { type: 'function' as const, function: weatherFunction };
const Forecast = z.strictObject({ city: z.enum(['Paris', 'Nairobi']), days: z.int().min(1).max(7) });

describe('tools and structured output with the openai package', () => {
  let client: SmallChat['client'];
  let plain: SmallChat['plain'];
  const { refusal } = useSmallChat((opened) => {
    ({ client, plain } = opened);
  });

  describe('structured output', () => {
    it('is parsed and checked by zod', async () => {
      const answer = await client.chat.completions.parse({
        model: MODEL,
        messages: question,
        temperature: 0,
        max_tokens: 60,
        response_format: zodResponseFormat(z.object({ city: z.enum(['Paris', 'Rome']), sure: z.boolean() }), 'answer'),
      });
      expect(answer.choices[0]?.finish_reason).toBe('stop');
      expect(answer.choices[0]?.message.parsed).toEqual({
        city: expect.stringMatching(/^(Paris|Rome)$/),
        sure: expect.any(Boolean),
      });
    });

    it('keeps to a schema inside json_object, as some clients send it', async () => {
      const schema = {
        type: 'object',
        properties: { n: { type: 'integer', minimum: 0, maximum: 9 } },
        required: ['n'],
        additionalProperties: false,
      };
      const format = { type: 'json_object', schema } as unknown as { type: 'json_object' };
      const answer = await client.chat.completions.create({ ...short, max_tokens: 20, response_format: format });
      expect(JSON.parse(textOf(answer))).toEqual({ n: expect.any(Number) });
    });

    it('is JSON in JSON mode, or the start of it when max_tokens cuts it', async () => {
      const answer = await client.chat.completions.create({
        ...short,
        messages: [{ role: 'user', content: 'Answer {"ok": true} as JSON.' }],
        max_tokens: 16,
        response_format: { type: 'json_object' },
      });
      expect(textOf(answer)).toMatch(/^\s*\{/);
      if (answer.choices[0]?.finish_reason === 'stop') expect(JSON.parse(textOf(answer))).toBeTypeOf('object');
      else expect(answer.choices[0]?.finish_reason).toBe('length');
    });

    it('streams whole characters that span several tokens', async () => {
      const schema = {
        type: 'object',
        properties: { s: { enum: ['☃🌍'] } },
        required: ['s'],
        additionalProperties: false,
      };
      const stream = await client.chat.completions.create({
        ...short,
        max_tokens: 40,
        response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
        stream: true,
      });
      const pieces = (await Array.fromAsync(stream)).map(({ choices }) => choices[0]?.delta.content ?? '');
      expect(JSON.parse(pieces.join(''))).toEqual({ s: '☃🌍' });
      expect(pieces.every((piece) => piece.isWellFormed() && !piece.includes('\uFFFD'))).toBe(true);
    });

    it('says length when max_tokens cuts it', async () => {
      const schema = { type: 'object', properties: { city: { enum: ['Paris'] } }, required: ['city'] };
      const answer = await client.chat.completions.create({
        ...short,
        max_tokens: 2,
        response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
      });
      expect(answer.choices[0]?.finish_reason).toBe('length');
    });
  });

  describe('tools', () => {
    const asking = {
      model: MODEL,
      messages: [{ role: 'user' as const, content: 'What will the weather be in Paris?' }],
      tools: [weather],
      temperature: 0,
      max_tokens: 80,
    };
    let called: OpenAI.ChatCompletion;
    beforeAll(async () => {
      called = await client.chat.completions.create({ ...asking, tool_choice: 'required', parallel_tool_calls: false });
    });

    it('are called with valid arguments when required', () => {
      const [choice] = called.choices;
      expect(choice?.finish_reason).toBe('tool_calls');
      expect(choice?.message.content).toBeNull();
      expect(choice?.message.tool_calls).toHaveLength(1);
      const call = choice?.message.tool_calls?.[0];
      if (call?.type !== 'function') throw new Error('no function was called');
      expect(call.function.name).toBe('weather');
      expect(call.id).not.toBe('');
      Forecast.parse(JSON.parse(call.function.arguments));
    });

    it('are streamed as deltas of the same call', async () => {
      const stream = client.chat.completions.stream({ ...asking, tool_choice: 'required', parallel_tool_calls: false });
      const pieces: string[] = [];
      stream.on('tool_calls.function.arguments.delta', ({ arguments_delta: piece }) => pieces.push(piece));
      const final = await stream.finalChatCompletion();
      const argumentsOf = (answer: OpenAI.ChatCompletion) => {
        const call = answer.choices[0]?.message.tool_calls?.[0];
        return call?.type === 'function' ? call.function.arguments : undefined;
      };
      expect(argumentsOf(final)).toBe(argumentsOf(called));
      expect(pieces.join('')).toBe(argumentsOf(called));
      expect(final.choices[0]?.finish_reason).toBe('tool_calls');
    });

    it('are run by runTools', async () => {
      const given: unknown[] = [];
      const runner = client.chat.completions.runTools({
        ...asking,
        tool_choice: { type: 'function', function: { name: 'weather' } },
        tools: [
          {
            type: 'function',
            function: {
              ...weatherFunction,
              function: (text: string) => {
                given.push(Forecast.parse(JSON.parse(text)));
                return 'sunny';
              },
            },
          },
        ],
      });
      await runner.done();
      expect(given).toEqual([{ city: expect.stringMatching(/Paris|Nairobi/), days: expect.any(Number) }]);
      expect(runner.messages.at(-1)).toMatchObject({ role: 'tool', content: 'sunny' });
    });

    it('read results back, and are not called when the choice is none', async () => {
      const call = called.choices[0]?.message;
      if (call?.tool_calls?.[0] === undefined) throw new Error('nothing was called');
      const answer = await client.chat.completions.create({
        ...asking,
        messages: [
          ...asking.messages,
          call,
          { role: 'tool', tool_call_id: call.tool_calls[0].id, content: 'Sunny, 21 degrees.' },
        ],
        tool_choice: 'none',
        max_tokens: 4,
      });
      expect(answer.choices[0]?.message.tool_calls).toBeUndefined();
      expect(textOf(answer)).not.toBe('');
      // The call and its result were read: far more than the question alone has.
      expect(answer.usage?.prompt_tokens).toBeGreaterThan((plain.usage?.prompt_tokens ?? 0) + 20);
    });

    it('refuse a choice that is not in the list', async () => {
      const error = await refusal({ tools: [weather], tool_choice: { type: 'function', function: { name: 'other' } } });
      expect(error).toMatchObject({ status: 400, param: 'tool_choice' });
    });
  });
});
