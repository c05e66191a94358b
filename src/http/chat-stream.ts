import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ChatCommand, ChatService } from '../services/chat.ts';
import type { ChunkWriter } from './chat-answer.ts';
import { inferenceCall } from './inference-call.ts';
import { toApiError } from './plugins/error-handler.ts';
import { openEventStream } from './sse.ts';

export interface ChatStreamOptions {
  chat: ChatService;
  command: ChatCommand;
  endpoint: string;
  chunks: ChunkWriter;
  withUsage: boolean;
}

/** Runs a generation and sends it as it comes. A failure before the first event is a plain answer, after it an error event. */
export async function streamChat(
  request: FastifyRequest,
  reply: FastifyReply,
  options: ChatStreamOptions,
): Promise<FastifyReply> {
  const { chat, command, endpoint, chunks, withUsage } = options;
  const call = inferenceCall(request, reply, endpoint);
  const events = openEventStream(reply);
  try {
    const usage = await chat.generate(call, command, (choice, event) => {
      const text = chunks.event(choice, event);
      return text === '' ? undefined : events.write(text);
    });
    request.record.promptTokens = usage.promptTokens;
    request.record.completionTokens = usage.completionTokens;
    await events.end(`${withUsage ? chunks.usage(usage) : ''}data: [DONE]\n\n`);
  } catch (error) {
    if (!events.opened) {
      events.stop();
      throw error;
    }
    const failure = toApiError(error, request);
    request.record.errorCode = failure.code;
    if (failure.status >= 500) request.log.error({ err: failure.cause ?? error }, 'a stream failed');
    await events.fail(failure);
  }
  return reply;
}
