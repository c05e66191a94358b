import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { consumptionOf, forEachPrice } from '@baobab/core/domain/measures.ts';
import { usdText } from '@baobab/core/domain/money.ts';
import { costNanoUsd } from '@baobab/core/domain/pricing.ts';
import { snake } from '../../validation/names.ts';
import { type ApiAccess, callApi, type ListedModel } from '../api-client.ts';
import { CommandFailed } from '../command.ts';

interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number };
}

interface Chunk {
  choices?: { delta?: { content?: string | null; reasoning_content?: string | null } }[];
  usage?: Usage | null;
  error?: { message: string };
}

export interface Turn {
  role: 'user' | 'assistant';
  content: string;
}

export interface Question {
  access: ApiAccess;
  model: ListedModel;
  messages: readonly Turn[];
  signal?: AbortSignal | undefined;
  /** Called for each part of the answer. */
  onText(text: string): void;
  /** Called for each part of what a reasoning model thinks. */
  onThought?(text: string): void;
}

export interface Answer {
  text: string;
  /** The model, how long it took and what it used. */
  summary: string;
}

/** What the server bills, by the prices that it lists. */
function costText({ pricing }: ListedModel, usage: Usage): string {
  if (pricing === undefined) return '';
  const prices = forEachPrice((name) => pricing[snake(name)] ?? null);
  const used = consumptionOf({
    promptTokens: usage.prompt_tokens,
    completionTokens: usage.completion_tokens,
    cacheReadTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
  });
  return `, $${usdText(costNanoUsd(used, prices))}`;
}

/** Streams an answer. An aborted one is returned as far as it came. */
export async function streamAnswer({ access, model, messages, signal, ...on }: Question): Promise<Answer> {
  const beganAt = performance.now();
  let text = '';
  let usage: Usage | null | undefined;
  try {
    const { body } = await callApi(access, 'chat/completions', {
      body: { model: model.id, messages, stream: true, stream_options: { include_usage: true } },
      signal,
    });
    const lines = createInterface({ input: body === null ? Readable.from([]) : Readable.fromWeb(body) });
    for await (const line of lines) {
      if (!line.startsWith('data: {')) continue;
      const chunk: Chunk = JSON.parse(line.slice('data: '.length));
      if (chunk.error !== undefined) throw new CommandFailed(chunk.error.message);
      const { content, reasoning_content: thought } = chunk.choices?.[0]?.delta ?? {};
      if (thought) on.onThought?.(thought);
      if (content) {
        text += content;
        on.onText(content);
      }
      usage = chunk.usage ?? usage;
    }
  } catch (error) {
    if (!signal?.aborted) throw error;
  }
  const seconds = `${((performance.now() - beganAt) / 1_000).toFixed(1)} s`;
  const state = signal?.aborted ? ', stopped' : '';
  const tokens = usage
    ? `, ${usage.prompt_tokens} tokens read and ${usage.completion_tokens} written${costText(model, usage)}`
    : '';
  return { text, summary: `${model.id}, ${seconds}${state}${tokens}` };
}
