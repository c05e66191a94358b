import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ChatCommand, ChatService } from '../../services/chat.ts';
import type { ChunkWriter } from '../endpoints/chat/answer.ts';
import { inferenceCall } from '../request/inference-call.ts';
import { streamedAnswer } from './streamed-answer.ts';

export interface ChatStreamOptions {
  chat: ChatService;
  command: ChatCommand;
  endpoint: string;
  chunks: ChunkWriter;
  withUsage: boolean;
}

/** Runs a generation and sends it as it comes. */
export function streamChat(
  request: FastifyRequest,
  reply: FastifyReply,
  options: ChatStreamOptions,
): Promise<FastifyReply> {
  const { chat, command, endpoint, chunks, withUsage } = options;
  const call = inferenceCall(request, reply, endpoint);
  return streamedAnswer(request, reply, async (events) => {
    const usage = await chat.generate(call, command, (choice, event) => {
      const text = chunks.event(choice, event);
      return text === '' ? undefined : events.write(text);
    });
    request.record.promptTokens = usage.promptTokens;
    request.record.completionTokens = usage.completionTokens;
    return `${withUsage ? chunks.usage(usage) : ''}data: [DONE]\n\n`;
  });
}
