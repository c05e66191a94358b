import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ChatEvent, TokenUsage } from '../../engines/engine.ts';
import type { ChatCommand, ChatService } from '../../inference/chat.ts';
import { streamedAnswer } from '../answer/streamed-answer.ts';
import { inferenceCall } from '../request/inference-call.ts';
import { type ChunkWriter, collectChoices } from './answer.ts';

export interface GenerationOptions {
  chat: ChatService;
  command: ChatCommand;
  /** As it is billed. */
  endpoint: string;
}

/** Runs a generation for an answer that is not streamed. */
export async function collectGeneration(
  request: FastifyRequest,
  reply: FastifyReply,
  { chat, command, endpoint }: GenerationOptions,
) {
  const call = inferenceCall(request, reply, endpoint);
  const answer = await collectChoices(chat, call, command);
  request.record.promptTokens = answer.usage.promptTokens;
  request.record.completionTokens = answer.usage.completionTokens;
  return answer;
}

/** Runs a generation and sends its events as they arrive. */
export function streamGeneration(
  request: FastifyRequest,
  reply: FastifyReply,
  options: GenerationOptions & { chunks: ChunkWriter; withUsage: boolean },
): Promise<FastifyReply> {
  const { chat, command, endpoint, chunks, withUsage } = options;
  const call = inferenceCall(request, reply, endpoint);
  const last = (usage: TokenUsage): string => {
    request.record.promptTokens = usage.promptTokens;
    request.record.completionTokens = usage.completionTokens;
    return `${withUsage ? chunks.usage(usage) : ''}data: [DONE]\n\n`;
  };
  // Not an async function: its frame would stay in memory as long as the stream is open.
  return streamedAnswer(request, reply, (events) => {
    const write = (choice: number, event: ChatEvent) => {
      const text = chunks.event(choice, event);
      return text === '' ? 'withheld' : events.write(text);
    };
    return chat.generate(call, command, write).then(last);
  });
}
