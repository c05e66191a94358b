import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ChatCommand, ChatService } from '../../../services/chat.ts';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { streamChat } from '../../answer/generation-stream.ts';
import { answerHead, collectChoices } from '../../answer/whole-answers.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { createTextChunkWriter, textCompletionToWire } from '../completions/answer.ts';
import { completionToWire, createChunkWriter } from './answer.ts';
import { chatCommand, completionCommand, generationFieldNames } from './request.ts';
import { ChatCompletionRequest, ChatCompletionResponse, CompletionRequest, CompletionResponse } from './schema.ts';

const CHAT = '/v1/chat/completions';
const COMPLETIONS = '/v1/completions';

export const chatRoutes: FastifyPluginAsyncTypebox<{ chat: ChatService }> = async (server, { chat }) => {
  async function collect(request: FastifyRequest, reply: FastifyReply, command: ChatCommand, endpoint: string) {
    const call = inferenceCall(request, reply, endpoint);
    const answer = await collectChoices(chat, call, command);
    request.record.promptTokens = answer.usage.promptTokens;
    request.record.completionTokens = answer.usage.completionTokens;
    return answer;
  }

  server.post(
    '/chat/completions',
    {
      config: {
        scope: 'chat',
        fieldNames: generationFieldNames,
        documented: { answers: ['text/event-stream'] },
      },
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
      const head = answerHead('chatcmpl', body.model);
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
      config: {
        scope: 'chat',
        fieldNames: generationFieldNames,
        documented: { answers: ['text/event-stream'] },
      },
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
      const head = answerHead('cmpl', body.model);
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
