import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { createId } from '../../domain/ids.ts';
import type { ChatCommand, ChatService } from '../../services/chat.ts';
import { completionToWire, createChunkWriter, createCollector } from '../chat-answer.ts';
import { chatCommand, completionCommand } from '../chat-request.ts';
import { streamChat } from '../chat-stream.ts';
import { createTextChunkWriter, textCompletionToWire } from '../completion-answer.ts';
import { inferenceCall } from '../inference-call.ts';
import {
  ChatCompletionRequest,
  ChatCompletionResponse,
  CompletionRequest,
  CompletionResponse,
} from '../schemas/chat.ts';
import { inferenceErrors } from '../schemas/errors.ts';

const CHAT = '/v1/chat/completions';
const COMPLETIONS = '/v1/completions';

export const chatRoutes: FastifyPluginAsyncTypebox<{ chat: ChatService }> = async (server, { chat }) => {
  const headOf = (prefix: string, model: string) => ({
    id: createId(prefix),
    created: Math.floor(Date.now() / 1000),
    model,
  });

  async function collect(request: FastifyRequest, reply: FastifyReply, command: ChatCommand, endpoint: string) {
    const collectors = Array.from({ length: command.choices }, createCollector);
    const call = inferenceCall(request, reply, endpoint);
    const usage = await chat.generate(call, command, (choice, event) => collectors[choice]?.take(event));
    request.record.promptTokens = usage.promptTokens;
    request.record.completionTokens = usage.completionTokens;
    return { choices: collectors.map(({ choice }) => choice), usage };
  }

  server.post(
    '/chat/completions',
    {
      config: { scope: 'chat' },
      schema: {
        summary: 'Answer a conversation',
        tags: ['Inference'],
        body: ChatCompletionRequest,
        response: { 200: ChatCompletionResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const command = chatCommand(body);
      const head = headOf('chatcmpl', body.model);
      const withLogprobs = command.request.logprobs !== undefined;
      if (!body.stream) {
        const { choices, usage } = await collect(request, reply, command, CHAT);
        return completionToWire(head, choices, usage, withLogprobs);
      }
      const withUsage = body.stream_options?.include_usage === true;
      const chunks = createChunkWriter(head, { withUsage, withLogprobs });
      return streamChat(request, reply, { chat, command, endpoint: CHAT, chunks, withUsage });
    },
  );

  server.post(
    '/completions',
    {
      config: { scope: 'chat' },
      schema: {
        summary: 'Continue a text',
        tags: ['Inference'],
        body: CompletionRequest,
        response: { 200: CompletionResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const command = completionCommand(body);
      const head = headOf('cmpl', body.model);
      const withLogprobs = command.request.logprobs !== undefined;
      if (!body.stream) {
        const { choices, usage } = await collect(request, reply, command, COMPLETIONS);
        return textCompletionToWire(head, choices, usage, withLogprobs);
      }
      const withUsage = body.stream_options?.include_usage === true;
      const chunks = createTextChunkWriter(head, { withUsage, withLogprobs });
      return streamChat(request, reply, { chat, command, endpoint: COMPLETIONS, chunks, withUsage });
    },
  );
};
