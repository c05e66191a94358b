import type { Clock } from '@baobab/core/ports/clock.ts';
import type { FastifyContextConfig, FastifyReply, FastifyRequest } from 'fastify';
import type { Static, TSchema } from 'typebox';
import type { AnswerWriter, ChatService } from '../../inference/chat.ts';
import type { ChatCommand } from '../../inference/chat-prompt.ts';
import { streamedAnswer } from '../answer/event-stream.ts';
import { inferenceCall } from '../request/inference-call.ts';

/** An API that generates text. Its route and the lines of batches read the same object. */
export interface GenerationEndpoint<Schema extends TSchema, Answer>
  extends Pick<FastifyContextConfig, 'fieldNames' | 'errorBody'> {
  /** As it is billed. */
  path: string;
  schema: Schema;
  /** Throws what the client did wrong. */
  command(body: Static<Schema>): ChatCommand;
  writer(body: Static<Schema>, command: ChatCommand, clock: Clock): AnswerWriter<Answer>;
}

export interface GenerationDependencies {
  chat: ChatService;
  clock: Clock;
}

/** Answers a request: in one piece, or as a stream. */
export function answerGeneration<Schema extends TSchema, Answer>(
  { path, command: commandOf, writer: writerOf }: GenerationEndpoint<Schema, Answer>,
  { chat, clock }: GenerationDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Answer> {
  const body = request.body as Static<Schema> & { stream?: boolean | null };
  const command = commandOf(body);
  const writer = writerOf(body, command, clock);
  const call = inferenceCall(request, reply, path);
  if (!body.stream) return chat.answer(call, command, writer);
  // Not an async function: its frame would stay in memory as long as the stream is open.
  return streamedAnswer(
    request,
    reply,
    (events) => chat.stream(call, command, writer, (text) => events.write(text)),
    (failure) => writer.fail(failure, request.id),
  );
}
