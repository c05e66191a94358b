import type { ChatEvent, ChatRequest } from '@baobab/core/engine/engine.ts';
import { createWholeCall, type WholeCall } from '@baobab/core/engine/written-calls/whole-call.ts';
import { newCallId } from './tool-calls.ts';

/** Turns an answer that is nothing but a call written as JSON into that call. Anything else passes unchanged. */
export interface WrittenCall {
  /** Holds text back while it can still become a call. */
  push(events: readonly ChatEvent[]): ChatEvent[];
  /** The held text, or the call that it is. */
  end(): ChatEvent[];
  /** The held text, for an answer that broke off. */
  release(): ChatEvent[];
  readonly isCall: boolean;
  /**
   * A call has to be made, it is complete, and only white space follows. llama-server keeps some models from ending such an answer, so
   * they write empty lines up to the limit.
   */
  readonly isIdle: boolean;
}

type TextDelta = Extract<ChatEvent, { type: 'text-delta' }>;

/** As much may follow a call before its answer is cut. */
const IDLE_CHARACTERS = 4;

/** Undefined: a call is not among what this request may be answered with. */
export function createWrittenCall({ prompt, tools = [], toolChoice, format }: ChatRequest): WrittenCall | undefined {
  const isText = format === undefined || format.type === 'text';
  if (!('messages' in prompt) || tools.length === 0 || toolChoice === 'none' || !isText) return undefined;
  const named = typeof toolChoice === 'object' ? toolChoice.name : undefined;
  const match = createWholeCall(tools.map(({ name }) => name).filter((name) => named === undefined || name === named));
  const forced = toolChoice !== undefined && toolChoice !== 'auto';
  let held: TextDelta[] = [];
  let text = '';
  let call: WholeCall | undefined;
  let decided = false;
  let isCall = false;

  const release = (): ChatEvent[] => {
    const events = held;
    decided = true;
    held = [];
    return events;
  };

  const pushOne = (event: ChatEvent): ChatEvent[] => {
    if (decided || event.type === 'reasoning-delta') return [event];
    if (event.type !== 'text-delta') return [...release(), event];
    held.push(event);
    text += event.text;
    const found = match(text);
    call = typeof found === 'string' ? undefined : found;
    return found === 'no' ? release() : [];
  };

  return {
    push: (events) => (decided ? [...events] : events.flatMap(pushOne)),
    end() {
      if (decided || call === undefined) return release();
      isCall = true;
      const id = newCallId();
      return [
        { type: 'tool-call-delta', index: 0, id, name: call.name, argumentsDelta: '' },
        { type: 'tool-call-delta', index: 0, argumentsDelta: call.arguments },
      ];
    },
    release,
    get isCall() {
      return isCall;
    },
    get isIdle() {
      return forced && !decided && call !== undefined && text.length - text.trimEnd().length > IDLE_CHARACTERS;
    },
  };
}
