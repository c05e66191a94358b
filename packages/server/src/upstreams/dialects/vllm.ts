import { createHash } from 'node:crypto';
import type { Constraint } from '@baobab/core/engine/engine.ts';
import { fieldsOf, numbersOf, sizeOf } from '../answer-fields.ts';
import { templateReasoning, wireImage, wireMessage, wireTool } from '../chat/wire.ts';
import type { Dialect, DialectTokenizer, ExtraFields } from './dialect.ts';
import { openai, postEmbeddings } from './openai.ts';

const tokensIn = (answer: unknown): number | undefined => {
  const count = fieldsOf(answer).count;
  return typeof count === 'number' ? count : undefined;
};

const prefixed = (prefix: string, fields: object) =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [prefix + name, value]));

/** `base`: the path of its routes. */
export const vllmTokenizer = (base: string): DialectTokenizer => ({
  encode: async (prompt, special, { model, ask }) =>
    tokensOf(await ask(`${base}/tokenize`, { model, prompt, add_special_tokens: special })),
  encodeChat: async ({ messages, tools, answerStart }, { model, ask }) =>
    tokensOf(
      await ask(`${base}/tokenize`, {
        model,
        messages: messages.map((message) => wireMessage(message, true)),
        ...(tools.length > 0 && { tools: tools.map(wireTool) }),
        add_generation_prompt: answerStart === undefined,
        continue_final_message: answerStart === 'continued',
      }),
    ),
  async decode(tokens, { model, ask }) {
    const { prompt } = fieldsOf(await ask(`${base}/detokenize`, { model, tokens }));
    return typeof prompt === 'string' ? prompt : undefined;
  },
});

const tokensOf = (answer: unknown): number[] | undefined => numbersOf(fieldsOf(answer).tokens);

/** Another Baobab takes vLLM's fields too. */
export const vllmExtras: ExtraFields = {
  answerStart: (start) => ({ continue_final_message: start === 'continued', add_generation_prompt: false }),
  // Asked for in every stream.
  countsEach: () => ({}),
  echoes: (echo) => ({ echo }),
  ignoresEnd: (ignore_eos) => ({ ignore_eos }),
  minP: (min_p) => ({ min_p }),
  minTokens: (min_tokens) => ({ min_tokens }),
  repetitionPenalty: (repetition_penalty) => ({ repetition_penalty }),
  topK: (top_k) => ({ top_k }),
  withTokenIds: (return_token_ids) => ({ return_token_ids }),
};

export function vllmConstraint(constraint: Constraint): object {
  switch (constraint.type) {
    case 'choice':
      return { choice: constraint.texts };
    case 'regex':
      return { regex: constraint.pattern };
    case 'grammar':
      return { grammar: constraint.grammar };
  }
}

export const vllm: Dialect = {
  ...openai,
  async recognise(_probe, listed) {
    const { owned_by, max_model_len } = await listed();
    if (owned_by !== 'vllm' && max_model_len === undefined) return undefined;
    return { contextLength: sizeOf(max_model_len), mayEmbed: true };
  },
  errors: {
    tooLong: /cannot be greater than max_(?:model_len|total_tokens)/,
    beforeLimit: /max_total_tokens=|max_model_len=/,
    // It stops counting just above its limit and then says "at least": that number is not passed on.
    beforeTokens: /contains(?! at least)|your request has/,
    tooMuchOutput: /^'?max_(?:completion_)?tokens\b.* (?:too large|cannot be greater than)/,
    // Newer versions count both parts: the prompt may fit by itself.
    bothParts:
      /requested (?<output>\d+) output tokens and your prompt contains (?:at least )?(?<input>\d+) input tokens/,
    // Older versions, with 400.
    unfit: /does not support .+ API$/,
    noImages: /does not support multimodal|not a multimodal model/,
    noTools: /tool choice requires --/,
  },
  health: { base: 'root', route: '/health' },
  keyVariable: 'VLLM_API_KEY',
  countsEveryChunk: true,
  countsCachedAtEnd: true,
  takesThoughts: true,
  streamFields: { stream_options: { include_usage: true, continuous_usage_stats: true } },
  reasoningFields: templateReasoning,
  extras: vllmExtras,
  // Versions before 0.11 know the second form only, those from 0.12 on the first.
  constraintFields: (constraint) => {
    const fields = vllmConstraint(constraint);
    return { structured_outputs: fields, ...prefixed('guided_', fields) };
  },
  /** It shares cached prefixes only between requests with the same salt: how fast an answer begins shows nothing of other accounts. */
  accountFields: (accountId) => ({ cache_salt: createHash('sha256').update(accountId).digest('base64url') }),
  /** Versions without `truncation_side` cut the end, so none is asked to cut the start. */
  truncationFields: ({ truncation, maxDocumentTokens }) =>
    truncation?.side === 'end' && maxDocumentTokens === undefined
      ? { truncate_prompt_tokens: truncation.maxTokens ?? -1, truncation_side: 'right' }
      : undefined,
  imageRequest: (image, model) => postEmbeddings({ model, messages: [{ role: 'user', content: [wireImage(image)] }] }),
  unkeptInTranscription: ['wordTimestamps'],
  tokenizer: vllmTokenizer(''),
  async countTexts(texts, model, ask) {
    const counts: number[] = [];
    for (const prompt of texts) {
      const tokens = tokensIn(await ask('/tokenize', { model, prompt }));
      if (tokens === undefined) return undefined;
      counts.push(tokens);
    }
    return counts;
  },
  countChat: async ({ messages, tools }, model, ask) =>
    tokensIn(
      await ask('/tokenize', {
        model,
        messages: messages.map((message) => wireMessage(message, true)),
        ...(tools.length > 0 && { tools: tools.map(wireTool) }),
        add_generation_prompt: true,
      }),
    ),
};
