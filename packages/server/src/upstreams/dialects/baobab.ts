import { MODALITIES } from '@baobab/core/domain/model.ts';
import type { ChatMessage, ToolDefinition } from '@baobab/core/engine/engine.ts';
import { fieldsOf, sizeOf } from '../answer-fields.ts';
import type { Dialect } from './dialect.ts';
import { openai } from './openai.ts';
import { vllmConstraint, vllmExtras, vllmTokenizer } from './vllm.ts';

/** Another Baobab. Its errors have our codes, which `error-answer.ts` knows. */
export const baobab: Dialect = {
  ...openai,
  async recognise(_probe, listed) {
    const { modality: named, context_length, dimensions, capabilities } = await listed();
    const modality = MODALITIES.find((each) => each === named);
    const vision = fieldsOf(capabilities).vision === true;
    return modality && { modality, contextLength: sizeOf(context_length), dimensions: sizeOf(dimensions), vision };
  },
  errors: { beforeLimit: /at most/, beforeTokens: /'[^']*' has/ },
  /** It lists slugs without versions. */
  listedNames: (model) => [model, `${model}:latest`, ...model.split('@', 1)],
  takesThoughts: true,
  extras: {
    ...vllmExtras,
    countsEach: () => ({ stream_options: { include_usage: true, continuous_usage_stats: true } }),
  },
  constraintFields: (constraint) => ({ structured_outputs: vllmConstraint(constraint) }),
  // Whatever its key or account there says.
  embeddingRequest: (input, model, extra) => openai.embeddingRequest(input, model, { truncate: 'NONE', ...extra }),
  rerankRequest: (request, model, extra) => openai.rerankRequest(request, model, { truncate: 'NONE', ...extra }),
  truncationFields: ({ truncation, maxDocumentTokens }) => ({
    ...(truncation && {
      truncate_prompt_tokens: truncation.maxTokens,
      truncate: truncation.side === 'end' ? 'END' : 'START',
    }),
    max_tokens_per_doc: maxDocumentTokens,
  }),
  countsTruncated: true,
  tokenizer: vllmTokenizer('/v1'),
  async countChat({ messages, tools }, model, ask) {
    const body = { model, input: messages.flatMap(toItems), tools: tools.map(toFunction) };
    const tokens = fieldsOf(await ask('/v1/responses/input_tokens', body)).input_tokens;
    return typeof tokens === 'number' ? tokens : undefined;
  },
};

/** A message in the form of the Responses API, which counts tokens. */
function toItems({ role, content, reasoning, toolCalls = [], toolCallId, images = [] }: ChatMessage): object[] {
  if (role === 'tool') return [{ type: 'function_call_output', call_id: toolCallId, output: content }];
  const text = { type: role === 'assistant' ? 'output_text' : 'input_text', text: content };
  const pictures = images.map(({ url, detail }) => ({ type: 'input_image', image_url: url, detail }));
  return [
    ...(reasoning ? [{ type: 'reasoning', content: [{ type: 'reasoning_text', text: reasoning }], summary: [] }] : []),
    ...(content !== '' || role !== 'assistant' ? [{ type: 'message', role, content: [text, ...pictures] }] : []),
    ...toolCalls.map((made) => ({
      type: 'function_call',
      call_id: made.id,
      name: made.name,
      arguments: made.arguments,
    })),
  ];
}

const toFunction = ({ name, description, parameters }: ToolDefinition): object => ({
  type: 'function',
  name,
  description,
  parameters,
});
