import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { ApiError } from '../../../errors/api-error.ts';
import type { Clock } from '../../../ports/clock.ts';
import { createId } from '../../../runtime/ids.ts';
import type { ChatService } from '../../../services/chat.ts';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { streamedAnswer } from '../../answer/streamed-answer.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { createMessageWriter, errorEvent, errorToWire } from './answer.ts';
import { MESSAGE_FIELDS, messageCommand } from './request.ts';
import { CountTokensRequest, CreateMessage, MessageObject, TokenCount } from './schema.ts';

const TAGS = ['Messages'];

const MessagesError = Type.Object(
  {
    type: Type.Literal('error'),
    error: Type.Object({ type: Type.String(), message: Type.String() }),
    request_id: Type.String(),
  },
  { description: 'The shape of every error of the Messages API' },
);
const messageErrors = Object.fromEntries(Object.keys(inferenceErrors).map((status) => [status, MessagesError]));

const config = { scope: 'chat' as const, fieldNames: MESSAGE_FIELDS, errorBody: errorToWire };

export interface MessageRouteDependencies {
  chat: ChatService;
  clock: Clock;
}

/** Anthropic's Messages API. Its errors have that API's shape too. */
export const messageRoutes: FastifyPluginAsyncTypebox<MessageRouteDependencies> = async (server, { chat, clock }) => {
  // The name under which this API's clients look for it.
  server.addHook('onRequest', (request, reply, done) => {
    reply.header('request-id', request.id);
    done();
  });

  server.post(
    '/messages',
    {
      config: { ...config, documented: { answers: ['text/event-stream'] } },
      schema: {
        summary: 'Answer in the form of the Messages API',
        tags: TAGS,
        body: CreateMessage,
        response: { 200: MessageObject, ...messageErrors },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const command = messageCommand(body);
      const writer = createMessageWriter(createId('msg', clock.now()), body);
      const call = inferenceCall(request, reply, '/v1/messages');
      if (!body.stream) {
        const whole = { ...command, request: { ...command.request, wholeAnswer: true } };
        writer.end(await chat.generate(call, whole, (_choice, event) => void writer.take(event)));
        return writer.message;
      }
      const answer = await streamedAnswer(
        request,
        reply,
        async (events) => {
          const usage = await chat.generate(call, command, (_choice, event) => {
            const text = writer.take(event);
            return text === '' ? undefined : events.write(text);
          });
          return writer.end(usage);
        },
        (failure) => errorEvent(failure, request.id),
      );
      return answer as never;
    },
  );

  for (const url of ['/messages/batches', '/messages/batches/*']) {
    server.route({
      method: ['GET', 'POST', 'DELETE'],
      url,
      config,
      schema: { hide: true },
      handler: () => {
        throw new ApiError(
          'unknown_endpoint',
          'There are no message batches. POST /v1/batches runs files of chat completions and responses.',
        );
      },
    });
  }

  server.post(
    '/messages/count_tokens',
    {
      config,
      schema: {
        summary: 'Count the tokens of a message with the tokenizer and template of the model',
        tags: TAGS,
        body: CountTokensRequest,
        response: { 200: TokenCount, ...messageErrors },
      },
    },
    async (request, reply) => {
      const call = inferenceCall(request, reply, '/v1/messages/count_tokens');
      return { input_tokens: await chat.countTokens(call, messageCommand(request.body)) };
    },
  );
};
