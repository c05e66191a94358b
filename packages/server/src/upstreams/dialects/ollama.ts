import type { ChatMessage, ChatRequest, ToolChoice, ToolDefinition } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { countOf, embeddingsOf, fieldsOf, sizeOf, vectorOf } from '../answer-fields.ts';
import { commonReasoning, wireTool } from '../chat/wire.ts';
import type { BeforeChat, Dialect, ListedModel, ModelFacts, Probe } from './dialect.ts';
import { openai } from './openai.ts';

/** Its OpenAI-style routes silently truncate; its own can be told not to. */
export const ollama: Dialect = {
  ...openai,
  recognise,
  errors: {
    unfit: /^"[^"]+" does not support (?:chat|generate)\b/,
    noTools: /does not support tools/,
    noThinking: /does not support thinking/,
  },
  reasoningFields: commonReasoning,
  offeredTools,
  beforeChat: refuseWhatIsCut,
  truncationFields: ({ truncation }) =>
    truncation?.side === 'end' && truncation.maxTokens === undefined ? { truncate: true } : undefined,
  embeddingRequest(input, model, extra) {
    if (input.some((each) => typeof each !== 'string')) {
      throw errors.unsupportedParameter(['inputs'], 'This model takes text only, no token ids.');
    }
    return { base: 'root', route: '/api/embed', body: JSON.stringify({ model, input, truncate: false, ...extra }) };
  },
  imageRequest: undefined,
  readEmbeddings({ json }, count) {
    const { embeddings, prompt_eval_count } = fieldsOf(json);
    return Array.isArray(embeddings)
      ? embeddingsOf(embeddings.map(vectorOf), count, countOf(prompt_eval_count))
      : undefined;
  },
  /** It always transcribes at temperature 0, and tells one segment. */
  unkeptInTranscription: ['temperature', 'wordTimestamps'],
  translatesAudio: false,
};

/** Its context, unless `num_ctx` of the model or OLLAMA_CONTEXT_LENGTH says otherwise. It silently cuts longer prompts. */
const ASSUMED_CONTEXT = 4096;

async function recognise(probe: Probe, listed: () => Promise<ListedModel>): Promise<ModelFacts | undefined> {
  const { id } = await listed();
  if ((await probe('/api/version')) === undefined) return undefined;
  const { model_info, parameters, capabilities } = (await probe('/api/show', { model: id })) ?? {};
  const { models } = (await probe('/api/ps')) ?? {};
  const info = Object.entries(fieldsOf(model_info));
  const sizeIn = (ending: string) => sizeOf(info.find(([name]) => name.endsWith(ending))?.[1]);
  const loaded: unknown[] = Array.isArray(models) ? models : [];
  const running = sizeOf(loaded.map(fieldsOf).find(({ name }) => name === id)?.context_length);
  const configured = sizeOf(Number(/^num_ctx\s+(\d+)/m.exec(String(parameters))?.[1]));
  const most = sizeIn('.context_length') ?? ASSUMED_CONTEXT;
  const isAssumed = running === undefined && configured === undefined && most > ASSUMED_CONTEXT;
  const abilities: unknown[] = Array.isArray(capabilities) ? capabilities : [];
  return {
    modality: abilities.includes('embedding') ? 'embedding' : abilities.includes('completion') ? 'chat' : undefined,
    contextLength: Math.min(most, running ?? configured ?? ASSUMED_CONTEXT),
    dimensions: sizeIn('.embedding_length'),
    vision: abilities.includes('vision'),
    notes: isAssumed
      ? [
          `Ollama runs it with a context of ${ASSUMED_CONTEXT} tokens by default; if yours is larger, add the model with --context-length`,
        ]
      : [],
  };
}

/** It ignores the choice of a tool: it gets a named tool alone, and no tools if none may be called. */
function offeredTools(tools: readonly ToolDefinition[], choice: ToolChoice | undefined): readonly ToolDefinition[] {
  if (choice === 'none') return [];
  return typeof choice === 'object' ? tools.filter(({ name }) => name === choice.name) : tools;
}

/** The smallest context that Ollama chooses by itself. The catalog may believe in a larger one than the model was started with. */
const DEFAULT_CONTEXT = 4_096;
/** Share of the context for what the chat template and its system prompt add. */
const TEMPLATE_SHARE = 1 / 4;
/** Around each message, and for its role. */
const TOKENS_PER_MESSAGE = 8;

/**
 * Refuses a prompt that does not fit. The OpenAI-style routes drop the oldest messages of such a prompt, or the middle of its text, and
 * answer the rest. Its own routes can be told not to, so Ollama first reads a long prompt over one of them, for one token. It keeps what it has
 * read for the request itself.
 */
async function refuseWhatIsCut(request: ChatRequest, { model, contextLength, field, send }: BeforeChat): Promise<void> {
  const { prompt } = request;
  if ('tokens' in prompt) return;
  const tools = offeredTools(request.tools ?? [], request.toolChoice);
  if (mostTokens({ ...request, tools }) <= Math.min(contextLength, DEFAULT_CONTEXT) * (1 - TEMPLATE_SHARE)) return;
  const isChat = 'messages' in prompt;
  const content = isChat
    ? { messages: prompt.messages.map(ownMessage), ...(tools.length > 0 && { tools: tools.map(wireTool) }) }
    : { prompt: prompt.text };
  await send({
    base: 'root',
    route: isChat ? '/api/chat' : '/api/generate',
    body: JSON.stringify({
      model,
      ...content,
      stream: false,
      truncate: false,
      options: { num_predict: 1 },
    }),
    field,
    answersWhenComplete: true,
  });
}

/** A token is one byte at least, and an image may have any number of them. */
function mostTokens({ prompt, tools = [] }: ChatRequest): number {
  if ('tokens' in prompt) return prompt.tokens.length;
  if ('text' in prompt) return Buffer.byteLength(prompt.text);
  return prompt.messages.reduce(
    (sum, { content, images = [], toolCalls = [] }) => {
      if (images.length > 0) return Number.POSITIVE_INFINITY;
      const calls = toolCalls.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(toolCalls));
      return sum + Buffer.byteLength(content) + calls + TOKENS_PER_MESSAGE;
    },
    tools.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(tools)),
  );
}

/** In the form of Ollama's own chat route. */
function ownMessage({ role, content, images = [], toolCalls = [], toolCallId }: ChatMessage): object {
  // Its OpenAI-style route takes no addresses of images either.
  const own = images.filter(({ url }) => url.startsWith('data:')).map(({ url }) => url.slice(url.indexOf(',') + 1));
  return {
    role,
    content,
    ...(own.length > 0 && { images: own }),
    ...(toolCalls.length > 0 && {
      tool_calls: toolCalls.map((made) => ({
        id: made.id,
        function: { name: made.name, arguments: objectOf(made.arguments) },
      })),
    }),
    tool_call_id: toolCallId,
  };
}

function objectOf(json: string): object {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}
