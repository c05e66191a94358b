import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Clock } from '../../../ports/clock.ts';
import { createId } from '../../../runtime/ids.ts';
import type { ChatService } from '../../../services/chat.ts';
import { inferenceErrors } from '../../answer/error-schema.ts';
import { streamedAnswer } from '../../answer/streamed-answer.ts';
import { inferenceCall } from '../../request/inference-call.ts';
import { eventText } from './answer.ts';
import { RESPONSE_FIELDS } from './request.ts';
import { createResponseRun } from './run.ts';
import { CreateResponse, ResponseObject } from './schema.ts';

export interface ResponseRouteDependencies {
  chat: ChatService;
  clock: Clock;
}

const TAGS = ['Responses'];

export const responseRoutes: FastifyPluginAsyncTypebox<ResponseRouteDependencies> = async (server, dependencies) => {
  const { clock } = dependencies;
  server.post(
    '/responses',
    {
      config: { scope: 'chat', fieldNames: RESPONSE_FIELDS, documented: { answers: ['text/event-stream'] } },
      schema: {
        summary: 'Answer in the shape of the Responses API',
        tags: TAGS,
        body: CreateResponse,
        response: { 200: ResponseObject, ...inferenceErrors },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const now = clock.now();
      const head = { id: createId('resp', now), createdAt: now, store: false };
      const { writer, run } = createResponseRun(dependencies, { head, body, before: [] });
      const call = inferenceCall(request, reply, '/v1/responses');
      if (!body.stream) {
        await run(call);
        return writer.response;
      }
      return streamedAnswer(
        request,
        reply,
        async (events) =>
          (await run(call, (written) => events.write(written.map(eventText).join('')))).map(eventText).join(''),
        (failure) => writer.fail(failure).map(eventText).join(''),
      );
    },
  );
};
