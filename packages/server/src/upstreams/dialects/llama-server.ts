import { fieldsOf, numbersOf, sizeOf } from '../answer-fields.ts';
import { templateReasoning, wireMessage, wireTool, wireToolChoice } from '../chat/wire.ts';
import type { Dialect, DialectTokenizer } from './dialect.ts';
import { openai } from './openai.ts';

const tokensOf = (answer: unknown): number[] | undefined => numbersOf(fieldsOf(answer).tokens);

const tokenizer: DialectTokenizer = {
  encode: async (content, special, { ask }) => tokensOf(await ask('/tokenize', { content, add_special: special })),
  async encodeChat({ messages, tools }, { ask }) {
    const chat = {
      messages: messages.map((message) => wireMessage(message, true)),
      ...(tools.length > 0 && { tools: tools.map(wireTool) }),
    };
    const written = fieldsOf(await ask('/apply-template', chat)).prompt;
    if (typeof written !== 'string') return undefined;
    return tokensOf(await ask('/tokenize', { content: written, add_special: true, parse_special: true }));
  },
  async decode(tokens, { ask }) {
    const { content } = fieldsOf(await ask('/detokenize', { tokens }));
    return typeof content === 'string' ? content : undefined;
  },
};

const gbnfText = (text: string): string =>
  `"${text.replace(/["\\\p{Cc}]/gu, (found) => `\\x${found.charCodeAt(0).toString(16).padStart(2, '0')}`)}"`;

export const llamaServer: Dialect = {
  ...openai,
  async recognise(probe, listed) {
    const { owned_by, meta, architecture } = await listed();
    const props = await probe('/props');
    if (owned_by !== 'llamacpp' && props === undefined) return undefined;
    const { n_ctx, n_ctx_train, n_embd } = fieldsOf(meta);
    const inputs = fieldsOf(architecture).input_modalities;
    return {
      // The context of one request; the model itself may have been made for more.
      contextLength: sizeOf(fieldsOf(props?.default_generation_settings).n_ctx) ?? sizeOf(n_ctx) ?? sizeOf(n_ctx_train),
      dimensions: sizeOf(n_embd),
      vision: Array.isArray(inputs) && inputs.includes('image'),
      mayEmbed: true,
    };
  },
  errors: {
    // With 500 for an embedding over its physical batch.
    tooLong: /too large to process|physical batch size/,
    beforeLimit: /available context size|current batch size:/,
    beforeTokens: /request \(|input \(/,
    unparsed: /does not match the expected .*format|failed to parse (?:input|output) at pos/,
    noImages: /image input is not supported/,
    noTools: /tools param requires --/,
  },
  /** It answers 503 while it loads. */
  health: { base: 'root', route: '/health' },
  keyVariable: 'LLAMA_API_KEY',
  listedNames: undefined,
  countsEveryChunk: true,
  takesThoughts: true,
  streamFields: { stream_options: { include_usage: true }, timings_per_token: true },
  reasoningFields: templateReasoning,
  /** Without a schema it does not constrain the answer. */
  anyObject: { type: 'json_object', schema: { type: 'object' } },
  extras: {
    // It continues a last message of the assistant by itself.
    answerStart: (start) => (start === 'continued' ? {} : undefined),
    countsEach: () => ({}),
    ignoresEnd: (ignore_eos) => ({ ignore_eos }),
    minP: (min_p) => ({ min_p }),
    repetitionPenalty: (repeat_penalty) => ({ repeat_penalty }),
    topK: (top_k) => ({ top_k }),
  },
  constraintFields(constraint) {
    if (constraint.type === 'regex') return undefined;
    const { type } = constraint;
    return {
      grammar: type === 'grammar' ? constraint.grammar : `root ::= ${constraint.texts.map(gbnfText).join(' | ')}`,
    };
  },
  /** It knows the choices 'none', 'auto' and 'required' only: to force one tool, it gets that one alone. */
  offeredTools: (tools, choice) =>
    typeof choice === 'object' ? tools.filter(({ name }) => name === choice.name) : tools,
  toolChoice: (choice) => (typeof choice === 'object' ? 'required' : wireToolChoice(choice)),
  imageRequest: undefined,
  givesRawScores: true,
  transcriptionFormat: 'json',
  unkeptInTranscription: ['wordTimestamps'],
  translatesAudio: false,
  tokenizer,
  async countTexts(texts, model, ask) {
    const counts: number[] = [];
    for (const text of texts) {
      const tokens = await tokenizer.encode(text, true, { model, ask });
      if (tokens === undefined) return undefined;
      counts.push(tokens.length);
    }
    return counts;
  },
  countChat: async (chat, model, ask) => (await tokenizer.encodeChat(chat, { model, ask }))?.length,
};
