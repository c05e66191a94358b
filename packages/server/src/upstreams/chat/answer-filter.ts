import type { ChatEvent, ChatRequest } from '@baobab/core/engine/engine.ts';
import { createWholeCall, type WholeCall } from '@baobab/core/engine/written-calls.ts';
import { createEventScrubber, type EventScrubber } from './scrubbed-events.ts';
import { newCallId } from './tool-calls.ts';

export const createAnswerFilter = (request: ChatRequest, credentials: readonly string[]): AnswerFilter =>
  new AnswerFilter(request, credentials);

/** What of an upstream's events the client gets: without credentials, and with the call that a text is. Most answers pass as they are. */
class AnswerFilter {
  readonly #scrubber: EventScrubber | undefined;
  readonly #written: WrittenCall | undefined;
  readonly #keepsText: boolean;
  /** The text so far, of an answer that is not streamed. */
  wholeText = '';

  constructor(request: ChatRequest, credentials: readonly string[]) {
    this.#scrubber = credentials.length > 0 ? createEventScrubber(credentials) : undefined;
    this.#written = createWrittenCall(request);
    this.#keepsText = request.wholeAnswer === true;
  }

  /** False: the answer is complete, and only white space follows. */
  get wantsMore(): boolean {
    return !this.#written?.isIdle;
  }

  get isCall(): boolean {
    return this.#written?.isCall === true;
  }

  push(events: readonly ChatEvent[]): readonly ChatEvent[] {
    const seen = this.#scrubber?.push(events) ?? events;
    if (this.#keepsText) this.wholeText += textOf(seen);
    return this.#written?.push(seen) ?? seen;
  }

  /** What was held back until the end. */
  end(): readonly ChatEvent[] {
    const rest = this.#scrubber?.end() ?? [];
    return this.#written === undefined ? rest : [...this.#written.push(rest), ...this.#written.end()];
  }

  /** What was held back, for an answer that broke off. */
  release(): readonly ChatEvent[] {
    return this.#written?.release() ?? [];
  }
}

const textOf = (events: readonly ChatEvent[]): string =>
  events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('');

/** Turns an answer that is nothing but a call written as JSON into that call. Anything else passes unchanged. */
interface WrittenCall {
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
function createWrittenCall({ prompt, tools = [], toolChoice, format }: ChatRequest): WrittenCall | undefined {
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
