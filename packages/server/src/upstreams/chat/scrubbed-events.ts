import type { ChatEvent, TokenLogprob } from '@baobab/core/engine/engine.ts';
import { createSecretScrubber, HIDDEN, secretForms } from '@baobab/core/runtime/secret-scrubber.ts';

/** Hides secrets in the events of one answer, also where one is spread over several events. */
export interface EventScrubber {
  push(events: readonly ChatEvent[]): ChatEvent[];
  /** The events of text that was held back. */
  end(): ChatEvent[];
}

type TextDelta = Extract<ChatEvent, { type: 'text-delta' }>;
type ToolCallDelta = Extract<ChatEvent, { type: 'tool-call-delta' }>;

export function createEventScrubber(secrets: readonly string[]): EventScrubber {
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

  return { push: (events) => events.flatMap(pushOne), end: () => flush() };
}

/** Hides secrets in a text that arrives in pieces, also where one is spread over several of them. */
export interface StreamScrubber {
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
