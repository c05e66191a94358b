import type { BatchEndpoint } from '@baobab/core/domain/batch.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { FastifyContextConfig } from 'fastify';
import type { Static, TSchema } from 'typebox';
import type { InferenceCall } from '../../../inference/call.ts';
import type { ChatService } from '../../../inference/chat.ts';
import type { EmbeddingsService } from '../../../inference/embeddings.ts';
import type { RerankService } from '../../../inference/rerank.ts';
import type { LineExecutor } from '../../../services/batches/line-run.ts';
import { dialectRules } from '../../answer/dialect.ts';
import { nameFields } from '../../answer/field-names.ts';
import { createBodyCheck } from '../../body/validation.ts';
import type { GenerationEndpoint } from '../../generation/endpoint.ts';
import { chatEndpoint } from '../chat/endpoint.ts';
import { embeddingEndpoint } from '../embeddings/endpoint.ts';
import { messageEndpoint } from '../messages/endpoint.ts';
import { rerankEndpoint } from '../rerank/endpoint.ts';
import { responseEndpoint, type WireResponseCreator } from '../responses/endpoint.ts';

type Answer = object | string | Buffer;

/** What an endpoint shares with its route. */
interface SharedEndpoint<Schema extends TSchema> extends Pick<FastifyContextConfig, 'fieldNames' | 'errorBody'> {
  schema: Schema;
}

interface LineEndpoint extends Pick<FastifyContextConfig, 'errorBody'> {
  answer(call: InferenceCall, body: unknown): Promise<Answer>;
}

/** Checks bodies and names fields in errors as the route of the endpoint does. */
function lineOf<Schema extends TSchema>(
  { schema, fieldNames, errorBody }: SharedEndpoint<Schema>,
  answer: (call: InferenceCall, body: Static<Schema>) => Promise<Answer>,
): LineEndpoint {
  const check = createBodyCheck(schema);
  return {
    errorBody,
    async answer(call, body) {
      await check(body);
      try {
        return await answer(call, body as Static<Schema>);
      } catch (error) {
        throw error instanceof ApiError ? nameFields(error, fieldNames, body) : error;
      }
    },
  };
}

const bytesOf = (answer: Answer): Uint8Array =>
  answer instanceof Buffer ? answer : Buffer.from(typeof answer === 'string' ? answer : JSON.stringify(answer));

export interface LineExecutorDependencies {
  embeddings: EmbeddingsService;
  rerank: RerankService;
  chat: ChatService;
  responseCreator: WireResponseCreator;
  clock: Clock;
}

/** Runs the lines of batches. Each gets the same bytes as the body of the same request over HTTP. */
export function createLineExecutor(dependencies: LineExecutorDependencies): LineExecutor {
  const { embeddings, rerank, chat, responseCreator, clock } = dependencies;
  const generated = <Schema extends TSchema, Written extends object>(endpoint: GenerationEndpoint<Schema, Written>) =>
    lineOf(endpoint, (call, body) => {
      if ((body as { stream?: unknown }).stream) {
        throw errors.invalidParameter('stream', "'stream' cannot be true in a batch.");
      }
      const command = endpoint.command(body);
      return chat.answer(call, command, endpoint.writer(body, command, clock));
    });
  const lines: Record<BatchEndpoint, LineEndpoint> = {
    '/v1/embeddings': lineOf(embeddingEndpoint, (call, body) => embeddingEndpoint.answer(embeddings, call, body)),
    '/v1/rerank': lineOf(rerankEndpoint, (call, body) => rerankEndpoint.answer(rerank, call, body)),
    '/v1/responses': lineOf(responseEndpoint, (call, body) => responseEndpoint.answerLine(responseCreator, call, body)),
    '/v1/chat/completions': generated(chatEndpoint),
    '/v1/messages': generated(messageEndpoint),
  };
  return {
    execute: async (name, body, call) => bytesOf(await lines[name].answer(call, body)),
    errorBody: (name, error, requestId) => bytesOf(lines[name].errorBody?.(error, requestId) ?? error.toBody()),
    statusOf: ({ status }, caller) => dialectRules(caller).status(status),
  };
}
