import type { TokenUsage } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { InferenceCall } from '../../../inference/call.ts';
import type { ChatCommand, ChatSink } from '../../../inference/chat-command.ts';
import { createResponseWriter, type ResponseWriter, type StreamEvent } from './answer.ts';
import { gatherDeltas } from './gathering.ts';
import type { PlannedResponse, ResponseDependencies } from './plan.ts';
import { responseCommand } from './request.ts';
import { withoutOldest } from './truncation.ts';

export interface RunOptions {
  /** Gets the events of the stream except the last one. Without it, the answer is in one piece. */
  onEvents?: ((events: StreamEvent[]) => void | Promise<void>) | undefined;
  /** Joins deltas that arrive within this time. 0: each one is an event. */
  gatherMs?: number | undefined;
}

export interface ResponseRun {
  writer: ResponseWriter;
  /** Generates the answer. `writer.response` is complete when this resolves; its usage is durable. */
  run(call: InferenceCall, options?: RunOptions): Promise<void>;
}

/**
 * Checks a request and prepares its run. Throws what the client did wrong before anything is done. `lastEvent`: the sequence number
 * of the last event that was sent before.
 */
export function createResponseRun(
  { chat, clock }: Pick<ResponseDependencies, 'chat' | 'clock'>,
  { head, body, before }: PlannedResponse,
  lastEvent?: number,
): ResponseRun {
  const { customTools, ...command } = responseCommand(body, before);
  const writer = createResponseWriter(head, body, customTools, lastEvent);
  return {
    writer,
    async run(call, { onEvents, gatherMs = 0 } = {}) {
      const request = { ...command.request, wholeAnswer: onEvents === undefined };
      let begun = false;
      const begin = () => {
        if (begun) return [];
        begun = true;
        return writer.begin();
      };
      const write: ChatSink = (_choice, event) => {
        const events = [...begin(), ...writer.take(event)];
        return events.length === 0 ? undefined : onEvents?.(events);
      };
      const gathering = gatherMs > 0 ? gatherDeltas(write, gatherMs) : undefined;
      /** With truncation, a prompt that is too long is tried again without its oldest turns. */
      const generate = async (attempt: ChatCommand): Promise<TokenUsage> => {
        try {
          return await chat.generate(call, attempt, gathering?.sink ?? write);
        } catch (error) {
          const isTooLong = !begun && error instanceof ApiError && error.code === 'context_length_exceeded';
          const shorter = isTooLong && body.truncation === 'auto' ? withoutOldest(attempt) : undefined;
          if (shorter === undefined) throw error;
          return generate(shorter);
        }
      };
      try {
        const usage = await generate({ ...command, request });
        await gathering?.drain();
        const events = [...begin(), ...writer.closeItems()];
        await onEvents?.(events);
        writer.complete(usage, clock.now());
      } finally {
        gathering?.stop();
      }
    },
  };
}
