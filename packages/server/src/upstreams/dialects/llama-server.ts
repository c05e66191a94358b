import { fieldsOf, sizeOf } from '../answer-fields.ts';
import { templateReasoning, wireMessage, wireTool, wireToolChoice } from '../chat/wire.ts';
import type { Dialect } from './dialect.ts';
import { openai } from './openai.ts';

const tokensIn = (answer: unknown): number | undefined => {
  const tokens = fieldsOf(answer).tokens;
  return Array.isArray(tokens) ? tokens.length : undefined;
};

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
  listedNames: undefined,
  countsEveryChunk: true,
  takesThoughts: true,
  streamFields: { stream_options: { include_usage: true }, timings_per_token: true },
  reasoningFields: templateReasoning,
  /** Without a schema it does not constrain the answer. */
  anyObject: { type: 'json_object', schema: { type: 'object' } },
  /** It knows the choices 'none', 'auto' and 'required' only: to force one tool, it gets that one alone. */
  offeredTools: (tools, choice) =>
    typeof choice === 'object' ? tools.filter(({ name }) => name === choice.name) : tools,
  toolChoice: (choice) => (typeof choice === 'object' ? 'required' : wireToolChoice(choice)),
  imageRequest: undefined,
  givesRawScores: true,
  async countTexts(texts, _model, ask) {
    const counts: number[] = [];
    for (const content of texts) {
      const tokens = tokensIn(await ask('/tokenize', { content, add_special: true }));
      if (tokens === undefined) return undefined;
      counts.push(tokens);
    }
    return counts;
  },
  async countChat({ messages, tools }, _model, ask) {
    const chat = {
      messages: messages.map((message) => wireMessage(message, true)),
      ...(tools.length > 0 && { tools: tools.map(wireTool) }),
    };
    const written = fieldsOf(await ask('/apply-template', chat)).prompt;
    if (typeof written !== 'string') return undefined;
    return tokensIn(await ask('/tokenize', { content: written, add_special: true, parse_special: true }));
  },
};
