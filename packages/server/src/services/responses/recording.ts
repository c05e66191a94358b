import type { RecordedEvents } from '@baobab/core/domain/response.ts';
import type { ChatEvent, TokenUsage } from '@baobab/core/engine/engine.ts';
import type { AnswerWriter } from '../../inference/chat.ts';
import type { ResponseWriter } from './response-format.ts';

/** Deltas that arrive within this time are recorded as one, so that a quick model does not cause a write for every token. */
const GATHER_MS = 200;

/** Two deltas as one; undefined when they are of different items. */
function joined(one: ChatEvent | undefined, next: ChatEvent): ChatEvent | undefined {
  if (one?.type === 'text-delta' && next.type === 'text-delta') {
    const logprobs = one.logprobs || next.logprobs ? [...(one.logprobs ?? []), ...(next.logprobs ?? [])] : undefined;
    return { ...one, text: one.text + next.text, ...(logprobs && { logprobs }) };
  }
  if (one?.type === 'reasoning-delta' && next.type === 'reasoning-delta') return { ...one, text: one.text + next.text };
  if (one?.type === 'tool-call-delta' && next.type === 'tool-call-delta' && one.index === next.index) {
    return { ...one, argumentsDelta: one.argumentsDelta + next.argumentsDelta };
  }
  return undefined;
}

/** Records the stream of a background response, instead of sending it. For one choice. */
export class RecordingWriter<Answer> implements AnswerWriter<Answer> {
  readonly #writer: ResponseWriter<Answer>;
  readonly #record: (events: RecordedEvents) => Promise<unknown>;
  #gathered: ChatEvent[] = [];
  #timer: NodeJS.Timeout | undefined;
  #recording: Promise<unknown> = Promise.resolve();

  constructor(writer: ResponseWriter<Answer>, record: (events: RecordedEvents) => Promise<unknown>) {
    this.#writer = writer;
    this.#record = record;
  }

  take(_choice: number, event: ChatEvent): string {
    const one = joined(this.#gathered.at(-1), event);
    if (one === undefined) this.#gathered.push(event);
    else this.#gathered[this.#gathered.length - 1] = one;
    this.#timer ??= setTimeout(() => this.#flush(() => ''), GATHER_MS);
    return '';
  }

  end(usage: TokenUsage): string {
    this.#flush(() => this.#writer.end(usage));
    return '';
  }

  fail(): string {
    return '';
  }

  answer(): Answer {
    return this.#writer.answer();
  }

  /** Resolves when everything is recorded. Rejects with the first error. */
  async done(): Promise<void> {
    await this.#recording;
  }

  /** Drops what is left. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#gathered = [];
  }

  #flush(rest: () => string): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const events = this.#gathered;
    this.#gathered = [];
    const first = this.#writer.lastEvent + 1;
    const content = events.map((event) => this.#writer.take(0, event)).join('') + rest();
    const last = this.#writer.lastEvent;
    if (content === '') return;
    this.#recording = this.#recording.then(() => this.#record({ first, last, content }));
    // Reported by `done`.
    this.#recording.catch(() => {});
  }
}
