import type { Static } from 'typebox';
import type { GenerationEndpoint } from '../../generation/endpoint.ts';
import { generationFieldNames } from '../../generation/request.ts';
import { chatCommand } from './command.ts';
import { ChatCompletionRequest, type ChatCompletionResponse } from './schema.ts';
import { CompletionWriter } from './writer.ts';

export const chatEndpoint: GenerationEndpoint<typeof ChatCompletionRequest, Static<typeof ChatCompletionResponse>> = {
  path: '/v1/chat/completions',
  schema: ChatCompletionRequest,
  fieldNames: generationFieldNames,
  command: chatCommand,
  writer: (body, command, clock) => new CompletionWriter({ idPrefix: 'chatcmpl', body, command, clock }),
};
