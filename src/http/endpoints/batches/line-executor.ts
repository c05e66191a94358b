import type { FastifyContextConfig } from 'fastify';
import type { Static, TSchema } from 'typebox';
import type { BatchEndpoint } from '../../../domain/batch.ts';
import { ApiError } from '../../../errors/api-error.ts';
import { errors } from '../../../errors/errors.ts';
import type { ChatService } from '../../../inference/chat.ts';
import type { EmbeddingsService } from '../../../inference/embeddings.ts';
import type { InferenceCall } from '../../../inference/pipeline.ts';
import type { RerankService } from '../../../inference/rerank.ts';
import type { Clock } from '../../../ports/clock.ts';
import { createId } from '../../../runtime/ids.ts';
import type { LineExecutor } from '../../../services/batches/line-run.ts';
import type { ConversationsService } from '../../../services/responses/conversations.ts';
import type { ResponsesService } from '../../../services/responses/responses.ts';
import { nameFields } from '../../answer/field-names.ts';
import { createBodyCheck } from '../../body/validation.ts';
import { answerHead, collectChoices } from '../../generation/answer.ts';
import { generationFieldNames } from '../../generation/request.ts';
import { completionToWire } from '../chat/answer.ts';
import { chatCommand } from '../chat/request.ts';
import { ChatCompletionRequest } from '../chat/schema.ts';
import { answerEmbeddings } from '../embeddings/answer.ts';
import { embeddingFieldNames } from '../embeddings/request.ts';
import { EmbeddingRequest } from '../embeddings/schema.ts';
import { createMessageWriter, errorToWire } from '../messages/answer.ts';
import { MESSAGE_FIELDS, messageCommand } from '../messages/request.ts';
import { CreateMessage } from '../messages/schema.ts';
import { answerRerank } from '../rerank/answer.ts';
import { RerankRequest } from '../rerank/schema.ts';
import { answerBatchLine } from '../responses/executor.ts';
import { RESPONSE_FIELDS } from '../responses/request.ts';
import { CreateResponse } from '../responses/schema.ts';

type Endpoint = (call: InferenceCall, body: unknown) => Promise<Uint8Array>;

/** An endpoint with the schema and the error messages of its route. */
function endpoint<T extends TSchema>(
  schema: T,
  fieldNames: FastifyContextConfig['fieldNames'],
  answer: (call: InferenceCall, body: Static<T>) => Promise<Uint8Array>,
): Endpoint {
  const check = createBodyCheck(schema);
  return async (call, body) => {
    await check(body);
    try {
      return await answer(call, body as Static<T>);
    } catch (error) {
      throw error instanceof ApiError ? nameFields(error, fieldNames, body) : error;
    }
  };
}

const refuseStream = (stream: boolean | null | undefined): void => {
  if (stream) throw errors.invalidParameter('stream', "'stream' cannot be true in a batch.");
};

const json = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));

export interface LineExecutorDependencies {
  embeddings: EmbeddingsService;
  rerank: RerankService;
  chat: ChatService;
  responses: ResponsesService;
  conversations: ConversationsService;
  clock: Clock;
}

/** Runs the lines of batches. Each gets the same bytes as the body of the same request over HTTP. */
export function createLineExecutor(dependencies: LineExecutorDependencies): LineExecutor {
  const { embeddings, rerank, chat, clock } = dependencies;
  const endpoints: Record<BatchEndpoint, Endpoint> = {
    '/v1/embeddings': endpoint(EmbeddingRequest, embeddingFieldNames, async (call, body) =>
      Buffer.from(await (await answerEmbeddings(embeddings, call, body)).answer),
    ),
    '/v1/rerank': endpoint(RerankRequest, undefined, async (call, body) =>
      json(await answerRerank(rerank, call, body)),
    ),
    '/v1/responses': endpoint(CreateResponse, RESPONSE_FIELDS, async (call, body) =>
      json(await answerBatchLine(dependencies, call, body)),
    ),
    '/v1/chat/completions': endpoint(ChatCompletionRequest, generationFieldNames, async (call, body) => {
      refuseStream(body.stream);
      const command = chatCommand(body);
      const head = answerHead('chatcmpl', body.model, clock);
      const { choices, usage } = await collectChoices(chat, call, command);
      return json(completionToWire(head, choices, usage, command.request.logprobs !== undefined));
    }),
    '/v1/messages': endpoint(CreateMessage, MESSAGE_FIELDS, async (call, body) => {
      refuseStream(body.stream);
      const command = messageCommand(body);
      const whole = { ...command, request: { ...command.request, wholeAnswer: true } };
      const writer = createMessageWriter(createId('msg', clock.now()), body);
      writer.end(await chat.generate(call, whole, (_choice, event) => void writer.take(event)));
      return json(writer.message);
    }),
  };
  return {
    execute: async (name, body, call) => endpoints[name](call, body),
    errorBody: (name, error, requestId) =>
      json(name === '/v1/messages' ? errorToWire(error, requestId) : error.toBody()),
  };
}
