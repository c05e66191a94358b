import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import type { EncodeCommand, TokensService } from '../../../inference/tokens.ts';
import { inferenceErrors } from '../../answer/error-answer.ts';
import { generationFieldNames } from '../../generation/request.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { chatCommand } from '../chat/command.ts';
import { DetokenizeRequest, DetokenizeResponse, TokenizeRequest, TokenizeResponse } from './schema.ts';

const TAGS = ['Inference'];

function commandOf(body: Static<typeof TokenizeRequest>): EncodeCommand {
  const { model, prompt, messages, tools, continue_final_message, add_generation_prompt } = body;
  const special = body.add_special_tokens ?? true;
  if (body.return_token_strs) {
    throw errors.unsupportedParameter(
      'return_token_strs',
      "'return_token_strs' is not supported: send the tokens to '/v1/detokenize'.",
    );
  }
  if (typeof prompt === 'string') return { model, request: { prompt: { text: prompt } }, special };
  if (!messages) throw errors.missingParameter('prompt');
  const chat = { model, messages, tools: tools ?? null };
  // What is not set must not be sent: true is the default of the second field.
  const start = {
    continue_final_message: continue_final_message ?? null,
    add_generation_prompt: add_generation_prompt ?? null,
  };
  const { request, images = [], documents = [] } = chatCommand({ ...chat, ...start });
  if (images.length > 0 || documents.length > 0) {
    throw errors.unsupportedParameter('messages', "'messages' has files or images, whose tokens are not told.");
  }
  return { model, request, special };
}

/** vLLM's routes, under `/v1` and, where its clients look for them, at the root. */
export const tokenRoutes: FastifyPluginAsyncTypebox<{ tokens: TokensService }> = async (server, { tokens }) => {
  server.post(
    '/tokenize',
    {
      config: { operation: 'tokens.encode', fieldNames: generationFieldNames, isCount: true },
      schema: {
        summary: 'Tell the tokens of a text, or of a chat with its template',
        tags: TAGS,
        body: TokenizeRequest,
        response: { 200: TokenizeResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const command = commandOf(request.body);
      const call = inferenceCall(request, reply, '/v1/tokenize');
      const { tokens: found, contextLength } = await tokens.encode(call, command);
      return { count: found.length, max_model_len: contextLength, tokens: [...found], token_strs: null };
    },
  );

  server.post(
    '/detokenize',
    {
      config: { operation: 'tokens.decode', isCount: true },
      schema: {
        summary: 'Tell the text of tokens',
        tags: TAGS,
        body: DetokenizeRequest,
        response: { 200: DetokenizeResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => ({
      prompt: await tokens.decode(inferenceCall(request, reply, '/v1/detokenize'), request.body),
    }),
  );
};
