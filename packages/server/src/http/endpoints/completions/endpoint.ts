import type { Static } from 'typebox';
import type { GenerationEndpoint } from '../../generation/endpoint.ts';
import { generationFieldNames } from '../../generation/request.ts';
import { completionCommand } from './command.ts';
import { CompletionRequest, type CompletionResponse } from './schema.ts';
import { TextWriter } from './writer.ts';

export const completionEndpoint: GenerationEndpoint<typeof CompletionRequest, Static<typeof CompletionResponse>> = {
  path: '/v1/completions',
  schema: CompletionRequest,
  fieldNames: generationFieldNames,
  command: completionCommand,
  writer: (body, command, clock) => new TextWriter({ idPrefix: 'cmpl', body, command, clock }),
};
