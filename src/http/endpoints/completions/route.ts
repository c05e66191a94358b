import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { ChatService } from '../../../inference/chat.ts';
import type { Clock } from '../../../ports/clock.ts';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { answerHead } from '../../generation/answer.ts';
import { generationFieldNames } from '../../generation/request.ts';
import { collectGeneration, streamGeneration } from '../../generation/run.ts';
import { createTextChunkWriter, textCompletionToWire } from './answer.ts';
import { completionCommand } from './request.ts';
import { CompletionRequest, CompletionResponse } from './schema.ts';

export interface CompletionRouteDependencies {
  chat: ChatService;
  clock: Clock;
}

export const completionRoutes: FastifyPluginAsyncTypebox<CompletionRouteDependencies> = async (
  server,
  { chat, clock },
) => {
  server.post(
    '/completions',
    {
      config: {
        operation: 'completions.create',
        fieldNames: generationFieldNames,
        documented: { answers: ['text/event-stream'] },
      },
      schema: {
        summary: 'Create a completion',
        tags: ['Inference'],
        body: CompletionRequest,
        response: { 200: CompletionResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const command = completionCommand(body);
      const generation = { chat, command, endpoint: '/v1/completions' };
      const head = answerHead('cmpl', body.model, clock);
      const withLogprobs = command.request.logprobs !== undefined;
      if (!body.stream) {
        const { choices, usage } = await collectGeneration(request, reply, generation);
        return textCompletionToWire(head, choices, usage, withLogprobs);
      }
      const withUsage = body.stream_options?.include_usage === true;
      const chunks = createTextChunkWriter(head, { withUsage, withLogprobs });
      return streamGeneration(request, reply, { ...generation, chunks, withUsage });
    },
  );
};
