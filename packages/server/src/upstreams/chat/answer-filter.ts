import type { ChatEvent, ChatRequest, TokenLogprob } from '@baobab/core/engine/engine.ts';
import { createWholeCall, type WholeCall } from '@baobab/core/engine/written-calls.ts';
import { createSecretScrubber, HIDDEN, secretForms } from '@baobab/core/runtime/secret-scrubber.ts';
import type { AnswerPiece } from './answer.ts';
import { newCallId } from './tool-calls.ts';

/** What of an upstream's events the client gets: without credentials, and with the call that a text is. Most answers pass as they are. */
export class AnswerFilter {
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

  push(pieces: readonly AnswerPiece[]): readonly AnswerPiece[] {
    if (this.#passes(pieces)) return pieces;
    const events = pieces.map(eventOf);
    const seen = this.#scrubber?.push(events) ?? events;
    if (this.#keepsText) this.wholeText += textOf(seen);
    return this.#written?.push(seen) ?? seen;
  }

  /** Whether nothing of them would be changed, held back or kept. */
  #passes(pieces: readonly AnswerPiece[]): boolean {
    if (this.#keepsText || this.#written?.isDecided === false) return false;
    const scrubber = this.#scrubber;
    return scrubber === undefined || pieces.every((piece) => typeof piece === 'string' && scrubber.passes(piece));
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

const eventOf = (piece: AnswerPiece): ChatEvent =>
  typeof piece === 'string' ? { type: 'text-delta', text: JSON.parse(piece) } : piece;

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
  /** All else passes. */
  readonly isDecided: boolean;
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
    get isDecided() {
      return decided;
    },
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

/** Hides secrets in the events of one answer, also where one is spread over several events. */
interface EventScrubber {
  /** Whether this text, as JSON, would pass as it is. */
  passes(json: string): boolean;
  push(events: readonly ChatEvent[]): ChatEvent[];
  /** The events of text that was held back. */
  end(): ChatEvent[];
}

type ToolCallDelta = Extract<ChatEvent, { type: 'tool-call-delta' }>;

function createEventScrubber(secrets: readonly string[]): EventScrubber {
  const scrub = createSecretScrubber(secrets);
  /** The kind of text that is being written. Secrets are not looked for across kinds. */
  let kind = '';
  let stream: StreamScrubber = createStreamScrubber(secrets);
  let flush = (): ChatEvent[] => [];
  let logprobs: TokenLogprob[] = [];

  const enter = (next: string, flushed: (rest: string) => ChatEvent): ChatEvent[] => {
    if (next === kind) return [];
    const rest = flush();
    kind = next;
    stream = createStreamScrubber(secrets);
    flush = () => {
      const text = stream.end();
      return text === '' ? [] : [flushed(text)];
    };
    return rest;
  };

  const textEvent = (text: string): TextDelta => {
    const ready = logprobs;
    logprobs = [];
    return { type: 'text-delta', text, ...(ready.length > 0 ? { logprobs: ready } : {}) };
  };

  const pushText = (event: TextDelta): ChatEvent[] => {
    const before = enter('text', textEvent);
    const hiddenBefore = stream.hidden;
    logprobs.push(...(event.logprobs ?? []));
    const text = stream.push(event.text);
    // They spell the secret.
    if (stream.hidden > hiddenBefore) logprobs = [];
    if (stream.holds) return text === '' ? before : [...before, { type: 'text-delta', text }];
    return [...before, { ...event, ...textEvent(text) }];
  };

  const pushCall = (event: ToolCallDelta): ChatEvent[] => {
    const { index, name, id } = event;
    const before = enter(`call ${index}`, (rest) => ({ type: 'tool-call-delta', index, argumentsDelta: rest }));
    const names = {
      ...(name === undefined ? {} : { name: scrub(name) }),
      ...(id === undefined ? {} : { id: scrub(id) }),
    };
    return [...before, { ...event, ...names, argumentsDelta: stream.push(event.argumentsDelta) }];
  };

  const pushOne = (event: ChatEvent): ChatEvent[] => {
    switch (event.type) {
      case 'text-delta':
        return pushText(event);
      case 'reasoning-delta': {
        const before = enter('reasoning', (text) => ({ type: 'reasoning-delta', text }));
        const text = stream.push(event.text);
        return text === '' ? before : [...before, { ...event, text }];
      }
      case 'tool-call-delta':
        return pushCall(event);
      default:
        return [...flush(), event];
    }
  };

  return {
    passes: (json) => kind === 'text' && !json.includes('\\') && stream.passes(json.slice(1, -1)),
    push: (events) => events.flatMap(pushOne),
    end: () => flush(),
  };
}

/** Hides secrets in a text that arrives in pieces, also where one is spread over several of them. */
interface StreamScrubber {
  /** Whether `push` would return just this text, and hold nothing back. */
  passes(text: string): boolean;
  /** Returns what can be passed on. Holds back an end that may be the beginning of a secret. */
  push(text: string): string;
  /** Returns what was held back. */
  end(): string;
  /** Something is held back. */
  readonly holds: boolean;
  /** How many secrets were hidden so far. */
  readonly hidden: number;
}

export function createStreamScrubber(secrets: Iterable<string | undefined>): StreamScrubber {
  const forms = secretForms(secrets);
  let held = '';
  let hidden = 0;

  const withoutSecrets = (text: string): string => {
    let clean = text;
    for (const form of forms) {
      if (!clean.includes(form)) continue;
      hidden += 1;
      clean = clean.replaceAll(form, HIDDEN);
    }
    return clean;
  };
  /** Where the longest end begins that may go on as a secret. */
  const heldFrom = (text: string): number => {
    let from = text.length;
    for (const form of forms) {
      const first = form.charAt(0);
      let at = text.indexOf(first, Math.max(0, text.length - form.length + 1));
      while (at !== -1 && at < from && !form.startsWith(text.slice(at))) at = text.indexOf(first, at + 1);
      if (at !== -1 && at < from) from = at;
    }
    return from;
  };

  return {
    passes: (text) => held === '' && !forms.some((form) => text.includes(form)) && heldFrom(text) === text.length,
    push(text) {
      const clean = withoutSecrets(held + text);
      const from = heldFrom(clean);
      held = clean.slice(from);
      return clean.slice(0, from);
    },
    end() {
      const rest = held;
      held = '';
      return rest;
    },
    get holds() {
      return held !== '';
    },
    get hidden() {
      return hidden;
    },
  };
}
