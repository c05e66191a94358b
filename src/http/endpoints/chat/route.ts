import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { ChatService } from '../../../inference/chat.ts';
import type { Clock } from '../../../ports/clock.ts';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { answerHead } from '../../generation/answer.ts';
import { generationFieldNames } from '../../generation/request.ts';
import { collectGeneration, streamGeneration } from '../../generation/run.ts';
import { completionToWire, createChunkWriter } from './answer.ts';
import { chatCommand } from './request.ts';
import { ChatCompletionRequest, ChatCompletionResponse } from './schema.ts';

export interface ChatRouteDependencies {
  chat: ChatService;
  clock: Clock;
}

export const chatRoutes: FastifyPluginAsyncTypebox<ChatRouteDependencies> = async (server, { chat, clock }) => {
  server.post(
    '/chat/completions',
    {
      config: {
        operation: 'chat.completions.create',
        fieldNames: generationFieldNames,
        documented: { answers: ['text/event-stream'] },
      },
      schema: {
        summary: 'Create a chat completion',
        tags: ['Inference'],
        body: ChatCompletionRequest,
        response: { 200: ChatCompletionResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const command = chatCommand(body);
      const generation = { chat, command, endpoint: '/v1/chat/completions' };
      const head = answerHead('chatcmpl', body.model, clock);
      const withLogprobs = command.request.logprobs !== undefined;
      if (!body.stream) {
        const { choices, usage } = await collectGeneration(request, reply, generation);
        return completionToWire(head, choices, usage, withLogprobs);
      }
      const withUsage = body.stream_options?.include_usage === true;
      const chunks = createChunkWriter(head, { withUsage, withLogprobs });
      return streamGeneration(request, reply, { ...generation, chunks, withUsage });
    },
  );
};
