import type { Clock } from '../../../ports/clock.ts';
import type { ChatService } from '../../../services/chat.ts';
import type { InferenceCall } from '../../../services/inference.ts';
import { createResponseWriter, type ResponseHead, type ResponseWriter, type StreamEvent } from './answer.ts';
import { responseCommand } from './request.ts';
import type { CreateResponseBody, InputItemBody } from './schema.ts';

export interface PlannedResponse {
  head: ResponseHead;
  body: CreateResponseBody;
  /** The items of the conversation so far. */
  before: readonly InputItemBody[];
}

export interface ResponseRun {
  writer: ResponseWriter;
  /** Runs to the end. `onEvents` gets the events of the stream but for the last one. */
  run(call: InferenceCall, onEvents?: (events: StreamEvent[]) => void | Promise<void>): Promise<StreamEvent[]>;
}

/** Checks a request and prepares its run. Throws what the client did wrong before anything is done. */
export function createResponseRun(
  { chat, clock }: { chat: ChatService; clock: Clock },
  { head, body, before }: PlannedResponse,
): ResponseRun {
  const { customTools, ...command } = responseCommand(body, before);
  const writer = createResponseWriter(head, body, customTools);
  return {
    writer,
    async run(call, onEvents) {
      const request = { ...command.request, wholeAnswer: onEvents === undefined };
      let begun = false;
      const usage = await chat.generate(call, { ...command, request }, (_choice, event) => {
        const events = [...(begun ? [] : writer.begin()), ...writer.take(event)];
        begun = true;
        return events.length === 0 ? undefined : onEvents?.(events);
      });
      await onEvents?.([...(begun ? [] : writer.begin()), ...writer.closeItems()]);
      if (onEvents === undefined) writer.closeItems();
      return writer.complete(usage, clock.now());
    },
  };
}
