import type { FastifyContextConfig } from 'fastify';
import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { BatchEndpoint } from '../../../domain/batch.ts';
import { ApiError } from '../../../errors/api-error.ts';
import { errors } from '../../../errors/errors.ts';
import type { LineExecutor } from '../../../services/batches/line-run.ts';
import type { ChatService } from '../../../services/chat.ts';
import type { EmbeddingsService } from '../../../services/embeddings.ts';
import type { InferenceCall } from '../../../services/inference.ts';
import type { RerankService } from '../../../services/rerank.ts';
import { nameFields } from '../../answer/field-names.ts';
import { answerEmbeddings, answerHead, answerRerank, collectChoices } from '../../answer/whole-answers.ts';
import { explainInvalid } from '../../body/validation.ts';
import { completionToWire } from '../chat/answer.ts';
import { chatCommand, generationFieldNames } from '../chat/request.ts';
import { ChatCompletionRequest } from '../chat/schema.ts';
import { EMBEDDING_FIELDS, EmbeddingRequest } from '../embeddings/schema.ts';
import { RerankRequest } from '../rerank/schema.ts';

type Endpoint = (call: InferenceCall, body: unknown) => Promise<Uint8Array>;

/** The same schema and the same messages as for the route. */
function endpoint<T extends TSchema>(
  schema: T,
  fieldNames: FastifyContextConfig['fieldNames'],
  answer: (call: InferenceCall, body: Static<T>) => Promise<Uint8Array>,
): Endpoint {
  const validator = Compile(schema);
  return async (call, body) => {
    if (!validator.Check(body)) throw explainInvalid(schema, body);
    try {
      return await answer(call, body as Static<T>);
    } catch (error) {
      throw error instanceof ApiError ? nameFields(error, fieldNames, body) : error;
    }
  };
}

const json = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));

export interface BatchLinesDependencies {
  embeddings: EmbeddingsService;
  rerank: RerankService;
  chat: ChatService;
}

/** The endpoints without HTTP: a line of a batch is answered with the bytes that a request would get. */
export function createLineExecutor({ embeddings, rerank, chat }: BatchLinesDependencies): LineExecutor {
  const endpoints: Record<BatchEndpoint, Endpoint> = {
    '/v1/embeddings': endpoint(EmbeddingRequest, EMBEDDING_FIELDS, async (call, body) =>
      Buffer.from(await (await answerEmbeddings(embeddings, call, body)).answer),
    ),
    '/v1/rerank': endpoint(RerankRequest, undefined, async (call, body) =>
      json(await answerRerank(rerank, call, body)),
    ),
    '/v1/chat/completions': endpoint(ChatCompletionRequest, generationFieldNames, async (call, body) => {
      if (body.stream) throw errors.invalidParameter('stream', "'stream' cannot be true in a batch.");
      const command = chatCommand(body);
      const head = answerHead('chatcmpl', body.model);
      const { choices, usage } = await collectChoices(chat, call, command);
      return json(completionToWire(head, choices, usage, command.request.logprobs !== undefined));
    }),
  };
  return { execute: async (name, body, call) => endpoints[name](call, body) };
}
