import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { AIMessage, type AIMessageChunk } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import { generateText, Output, streamText, tool } from 'ai';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { recordingFetch } from '../fixtures/openai-schemas/recording-fetch.ts';
import { openAccount, type SharedAccount } from './shared-account.ts';

const MODEL = 'huggingfacetb/smollm2-135m-instruct';
const QUESTION = 'What is gravity?';
const Verdict = z.object({ city: z.enum(['Paris', 'Rome']), sure: z.boolean() });
const Weather = z.object({ city: z.enum(['Paris', 'Nairobi']) });

describe('chat with other clients', () => {
  let server: SharedAccount;
  const recorded = recordingFetch();
  beforeAll(async () => {
    server = await openAccount();
  });
  afterEach(() => {
    expect(recorded.check()).toBeGreaterThan(0);
  });

  describe('the AI SDK', () => {
    const provider = () =>
      createOpenAICompatible({
        name: 'baobab',
        baseURL: `${server.address}/v1`,
        apiKey: server.apiKey,
        fetch: recorded.fetch,
        includeUsage: true,
        supportsStructuredOutputs: true,
      });

    it('generates and streams the same text', async () => {
      const asking = { model: provider()(MODEL), prompt: QUESTION, temperature: 0, maxOutputTokens: 8, maxRetries: 0 };
      const whole = await generateText(asking);
      expect(whole.finishReason).toBe('length');
      expect(whole.usage.outputTokens).toBe(8);
      const stream = streamText(asking);
      let text = '';
      for await (const delta of stream.textStream) text += delta;
      expect(text).toBe(whole.text);
      expect(await stream.finishReason).toBe('length');
      expect((await stream.usage).inputTokens).toBe(whole.usage.inputTokens);
    });

    it('calls tools and runs them', async () => {
      const given: unknown[] = [];
      const { toolCalls, toolResults, finishReason } = await generateText({
        model: provider()(MODEL),
        prompt: 'Weather in Paris?',
        temperature: 0,
        maxOutputTokens: 60,
        maxRetries: 0,
        toolChoice: 'required',
        tools: {
          weather: tool({
            description: 'Weather in a city',
            inputSchema: Weather,
            execute: async (input) => {
              given.push(input);
              return 'sunny';
            },
          }),
        },
      });
      expect(finishReason).toBe('tool-calls');
      expect(toolCalls.length).toBeGreaterThan(0);
      expect(toolCalls[0]).toMatchObject({ toolName: 'weather', input: { city: expect.any(String) } });
      expect(given[0]).toEqual(toolCalls[0]?.input);
      expect(toolResults[0]?.output).toBe('sunny');
    });

    it('gets objects that keep to a schema', async () => {
      const { output } = await generateText({
        model: provider()(MODEL),
        prompt: QUESTION,
        temperature: 0,
        maxOutputTokens: 60,
        maxRetries: 0,
        output: Output.object({ schema: Verdict }),
      });
      expect(Verdict.parse(output)).toEqual(output);
    });

    it('streams objects', async () => {
      const stream = streamText({
        model: provider()(MODEL),
        prompt: QUESTION,
        temperature: 0,
        maxOutputTokens: 60,
        maxRetries: 0,
        output: Output.object({ schema: Verdict }),
      });
      let last: unknown;
      for await (const partial of stream.partialOutputStream) last = partial;
      expect(Verdict.parse(last)).toEqual(await stream.output);
    });
  });

  describe('LangChain', () => {
    const chat = (maxTokens: number) =>
      new ChatOpenAI({
        model: MODEL,
        apiKey: server.apiKey,
        temperature: 0,
        maxTokens,
        maxRetries: 0,
        streamUsage: true,
        configuration: { baseURL: `${server.address}/v1`, fetch: recorded.fetch },
      });

    const usageOf = (message: { usage_metadata?: unknown } | undefined) =>
      message?.usage_metadata as { input_tokens: number; output_tokens: number } | undefined;

    it('invokes and streams the same text, with usage', async () => {
      const whole = await chat(8).invoke(QUESTION);
      expect(usageOf(whole)?.output_tokens).toBe(8);
      let all: AIMessageChunk | undefined;
      for await (const chunk of await chat(8).stream(QUESTION)) all = all === undefined ? chunk : all.concat(chunk);
      expect(all?.text).toBe(whole.text);
      expect(usageOf(all)?.output_tokens).toBe(8);
      expect(usageOf(all)?.input_tokens).toBe(usageOf(whole)?.input_tokens);
    });

    it('binds tools', async () => {
      const weather = { name: 'weather', description: 'Weather in a city', schema: Weather };
      const answer = await chat(60).bindTools([weather], { tool_choice: 'weather' }).invoke('Weather in Paris?');
      expect(answer).toBeInstanceOf(AIMessage);
      expect(answer.tool_calls?.[0]).toMatchObject({ name: 'weather', id: expect.any(String) });
      Weather.parse(answer.tool_calls?.[0]?.args);
    });

    it('gets structured output by schema and by function', async () => {
      const bySchema = await chat(60)
        .withStructuredOutput(Verdict, { name: 'verdict', method: 'jsonSchema' })
        .invoke(QUESTION);
      expect(Verdict.parse(bySchema)).toEqual(bySchema);
      const byFunction = await chat(60)
        .withStructuredOutput(Verdict, { name: 'verdict', method: 'functionCalling' })
        .invoke(QUESTION);
      expect(Verdict.parse(byFunction)).toEqual(byFunction);
    });
  });
});
