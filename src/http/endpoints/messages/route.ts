import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { ChatService } from '../../../inference/chat.ts';
import type { Clock } from '../../../ports/clock.ts';
import { createId } from '../../../runtime/ids.ts';
import { streamedAnswer } from '../../answer/streamed-answer.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { type MessageBatchRouteDependencies, messageBatchRoutes } from '../message-batches/route.ts';
import { createMessageWriter, errorEvent, errorToWire } from './answer.ts';
import { MESSAGE_FIELDS, messageCommand } from './request.ts';
import { CountTokensRequest, CreateMessage, MessageObject, messageErrors, TokenCount } from './schema.ts';

const TAGS = ['Messages'];

const config = { fieldNames: MESSAGE_FIELDS, errorBody: errorToWire };

export interface MessageRouteDependencies extends MessageBatchRouteDependencies {
  chat: ChatService;
  clock: Clock;
}

/** Anthropic's Messages API. Its errors have that API's shape too. */
export const messageRoutes: FastifyPluginAsyncTypebox<MessageRouteDependencies> = async (
  server,
  { chat, clock, messageBatches },
) => {
  // The name under which this API's clients look for it.
  server.addHook('onRequest', (request, reply, done) => {
    reply.header('request-id', request.id);
    done();
  });
  await server.register(messageBatchRoutes, { messageBatches });

  server.post(
    '/messages',
    {
      config: { ...config, operation: 'messages.create', documented: { answers: ['text/event-stream'] } },
      schema: {
        summary: 'Create a message',
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
            return text === '' ? 'withheld' : events.write(text);
          });
          return writer.end(usage);
        },
        (failure) => errorEvent(failure, request.id),
      );
      return answer as never;
    },
  );

  server.post(
    '/messages/count_tokens',
    {
      config: { ...config, operation: 'messages.countTokens', isCount: true },
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
