import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { copyWithTemplate } from '../fixtures/gguf-template.ts';
import { recordingFetch } from '../fixtures/openai-schemas/recording-fetch.ts';
import { weights } from '../models/weights.ts';
import { startServer } from './start-server.ts';

/**
 * No small reasoning model comes from a package registry. SmolLM2 thinks before it answers when its template shows it how, and opens
 * the thoughts as the templates of such models do.
 */
const EXAMPLES = [
  ['What is 2+2?', 'The user asks for a sum. 2+2 is 4.', 'The answer is 4.'],
  ['What is the capital of France?', 'The user asks for a capital. It is Paris.', 'The capital of France is Paris.'],
].map(([question, thoughts, answer]) => {
  const turn = `<think>\\n${thoughts}\\n</think>\\n\\n${answer}`;
  return `<|im_start|>user\\n${question}<|im_end|>\\n<|im_start|>assistant\\n${turn}<|im_end|>\\n`;
});
const TEMPLATE = [
  `{{ '${EXAMPLES.join('')}' }}`,
  "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}",
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}",
].join('');
const MODEL = 'acme/thinker';
const question = { role: 'user' as const, content: 'What is 3+3?' };

const recorded = recordingFetch();
const directory = await mkdtemp(join(tmpdir(), 'baobab-reasoning-'));
const path = join(directory, 'thinker.gguf');
const source = await weights('huggingfacetb/smollm2-135m-instruct');
await copyWithTemplate(join(source.directory, 'model.gguf'), path, TEMPLATE);
const entry = { slug: MODEL, modality: 'chat', created: '2026-11-01', source: { kind: 'file', path } };
await writeFile(join(directory, 'thinker.yaml'), stringify(entry));
const server = await startServer({ env: { BAOBAB_CATALOG_DIR: directory } });
const openai = new OpenAI({
  baseURL: `${server.address}/v1`,
  apiKey: server.apiKey,
  fetch: recorded.fetch,
  maxRetries: 0,
});
const anthropic = new Anthropic({ baseURL: server.address, apiKey: server.apiKey, maxRetries: 0 });
afterAll(async () => {
  await server.stop();
  await rm(directory, { recursive: true, force: true });
});

it('tells what a local model thinks apart from its answer, in chats, responses and messages', async () => {
  const { choices } = await openai.chat.completions.create({
    model: MODEL,
    messages: [question],
    temperature: 0,
    max_tokens: 100,
  });
  const message = choices[0]?.message as { content: string; reasoning_content?: string };
  expect(message.reasoning_content).toMatch(/sum/);
  expect(message.content).toMatch(/6/);
  expect(message.content).not.toContain('think>');

  const stream = openai.responses.stream({ model: MODEL, input: [question], temperature: 0, max_output_tokens: 100 });
  const response = await stream.finalResponse();
  expect(response.output.map(({ type }) => type)).toEqual(['reasoning', 'message']);
  expect(response.output[0]).toMatchObject({ content: [{ type: 'reasoning_text', text: message.reasoning_content }] });
  expect(response.output_text).toBe(message.content);
  expect(response.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
  expect(recorded.check()).toBe(2);

  const body = {
    model: MODEL,
    messages: [question],
    temperature: 0,
    max_tokens: 100,
    thinking: { type: 'enabled' as const, budget_tokens: 1024 },
  };
  const answer = await anthropic.messages.create(body);
  expect(answer.content).toMatchObject([
    { type: 'thinking', thinking: message.reasoning_content },
    { type: 'text', text: message.content },
  ]);
});
