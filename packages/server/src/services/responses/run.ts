import type { Principal } from '@baobab/core/domain/principal.ts';
import type { RecordedEvents } from '@baobab/core/domain/response.ts';
import type { ChatEvent, TokenUsage } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { InferenceCall } from '../../inference/call.ts';
import type { AnswerWriter, ChatService, SendText } from '../../inference/chat.ts';
import type { ChatCommand } from '../../inference/chat-prompt.ts';
import type { ResponseWriter } from './response-format.ts';

/**
 * The same chat without about a quarter of its oldest messages, up to where a user speaks again: calls stay with their results.
 * Undefined: nothing is left that could go.
 */
export function withoutOldest(command: ChatCommand): ChatCommand | undefined {
  const { request, images = [], documents } = command;
  if (!('messages' in request.prompt)) return undefined;
  const { messages } = request.prompt;
  const start = Math.max(
    0,
    messages.findIndex(({ role }) => role !== 'system'),
  );
  const wanted = start + Math.max(1, Math.floor((messages.length - start) / 4));
  const next = messages.findIndex(({ role }, index) => index >= wanted && role === 'user');
  if (next === -1) return undefined;
  const dropped = next - start;
  const moved = <T extends { message: number }>(placed: readonly T[]): T[] =>
    placed.filter(({ message }) => message >= next).map((each) => ({ ...each, message: each.message - dropped }));
  return {
    ...command,
    request: { ...request, prompt: { messages: [...messages.slice(0, start), ...messages.slice(next)] } },
    images: moved(images),
    documents: documents && moved(documents),
  };
}

export interface ResponseRunOptions<Answer> {
  chat: Pick<ChatService, 'answer' | 'stream'>;
  command: ChatCommand;
  writer: ResponseWriter<Answer>;
  truncates: boolean;
  /** Whether `save` keeps anything. */
  isStored: boolean;
  /** Stores the answer, before the client sees its end. */
  save(principal: Principal): Promise<void>;
}

/** A response whose request was read and checked. It is run once, in one of three ways. */
export class ResponseRun<Answer> {
  readonly #options: ResponseRunOptions<Answer>;

  constructor(options: ResponseRunOptions<Answer>) {
    this.#options = options;
  }

  /** Stores the answer, and returns it in one piece. */
  async answer(call: InferenceCall): Promise<Answer> {
    const { save, isStored } = this.#options;
    const answer = await this.whole({ ...call, isStored });
    await save(call.principal);
    return answer;
  }

  /** Sends its events. Resolves with the last text. */
  async stream(call: InferenceCall, send: SendText): Promise<string> {
    const { chat, writer, save, isStored } = this.#options;
    const own = { ...call, isStored };
    const rest = await this.#generate((command) => chat.stream(own, command, writer, send));
    await send(rest);
    await save(call.principal);
    return writer.ending();
  }

  /** The last text of a stream that has failed. */
  fail(error: ApiError, requestId: string): string {
    return this.#options.writer.fail(error, requestId);
  }

  /** The answer in one piece, which the caller stores. */
  whole(call: InferenceCall): Promise<Answer> {
    const { chat, writer } = this.#options;
    return this.#generate((command) => chat.answer(call, command, writer));
  }

  /** In the background, with its events in the log. */
  async recorded(call: InferenceCall, record: (events: RecordedEvents) => Promise<unknown>): Promise<Answer> {
    const { chat, writer } = this.#options;
    const recording = new RecordingWriter(writer, record);
    try {
      await this.#generate((command) => chat.stream(call, command, recording, () => {}));
      await recording.done();
      return writer.answer();
    } finally {
      recording.stop();
    }
  }

  async #generate<T>(attempt: (command: ChatCommand) => Promise<T>, command = this.#options.command): Promise<T> {
    const { writer, truncates } = this.#options;
    try {
      return await attempt(command);
    } catch (error) {
      const isTooLong = !writer.hasBegun && error instanceof ApiError && error.code === 'context_length_exceeded';
      const shorter = isTooLong && truncates ? withoutOldest(command) : undefined;
      if (shorter === undefined) throw error;
      return this.#generate(attempt, shorter);
    }
  }
}

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
class RecordingWriter<Answer> implements AnswerWriter<Answer> {
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
