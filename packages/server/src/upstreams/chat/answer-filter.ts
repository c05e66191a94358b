import type { ChatEvent, ChatRequest } from '@baobab/core/engine/engine.ts';
import { createEventScrubber, type EventScrubber } from './scrubbed-events.ts';
import { createWrittenCall, type WrittenCall } from './written-call.ts';

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
