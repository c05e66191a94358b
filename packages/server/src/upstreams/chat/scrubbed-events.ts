import type { ChatEvent, TokenLogprob } from '@baobab/core/engine/engine.ts';
import { createSecretScrubber } from '@baobab/core/runtime/secret-scrubber.ts';
import { createStreamScrubber, type StreamScrubber } from '@baobab/core/runtime/stream-scrubber.ts';

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
