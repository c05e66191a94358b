import type { ChatEvent, TokenLogprob } from '@baobab/core/engine/engine.ts';
import { createInnerText } from '@baobab/core/runtime/inner-text.ts';
import type { Thinking } from '../prompt/chat-template.ts';
import { possibleStopSuffix } from '../text/stop-sequences.ts';

const OPEN = '<think>';
const CLOSE = '</think>';

/** Separates the reasoning of a model, which it writes between tags before its answer, from the answer. */
export interface ReasoningSplit {
  take(events: readonly ChatEvent[]): readonly ChatEvent[];
  /** The events of held-back text when generation has ended. */
  finish(): readonly ChatEvent[];
}

const UNCHANGED: ReasoningSplit = { take: (events) => events, finish: () => [] };

export function createReasoningSplit(thinking: Thinking | undefined): ReasoningSplit {
  if (thinking === undefined) return UNCHANGED;
  let state: 'start' | 'thinking' | 'gap' | 'answer' = thinking === 'opened' ? 'thinking' : 'start';
  let held = '';
  let logprobs: TokenLogprob[] | undefined;

  const inner = createInnerText();

  function reasoning(given: string): ChatEvent[] {
    const text = inner.push(given);
    return text === '' ? [] : [{ type: 'reasoning-delta', text }];
  }

  function answer(text: string): ChatEvent[] {
    const found = logprobs;
    logprobs = undefined;
    held = '';
    state = 'answer';
    if (text === '' && found === undefined) return [];
    return [{ type: 'text-delta', text, ...(found ? { logprobs: found } : {}) }];
  }

  function read(): ChatEvent[] {
    if (state === 'start') {
      const begun = held.trimStart();
      if (begun.length < OPEN.length && OPEN.startsWith(begun)) return [];
      if (!begun.startsWith(OPEN)) return answer(held);
      state = 'thinking';
      // Only the answer has log probabilities.
      logprobs = undefined;
      held = begun.slice(OPEN.length);
    }
    if (state === 'thinking') {
      const end = held.indexOf(CLOSE);
      if (end === -1) {
        const keep = possibleStopSuffix(held, [CLOSE]);
        const ready = held.slice(0, held.length - keep);
        held = held.slice(held.length - keep);
        logprobs = undefined;
        return reasoning(ready);
      }
      const thoughts = held.slice(0, end);
      held = held.slice(end + CLOSE.length);
      state = 'gap';
      logprobs = undefined;
      return [...reasoning(thoughts), ...read()];
    }
    // The blank lines between the thoughts and the answer belong to neither.
    const begun = held.trimStart();
    if (begun !== '') return answer(begun);
    held = '';
    logprobs = undefined;
    return [];
  }

  function finish(): ChatEvent[] {
    const rest = held;
    held = '';
    if (state === 'start') return answer(rest);
    return state === 'thinking' ? reasoning(rest) : [];
  }

  return {
    take: (events) =>
      events.flatMap((event) => {
        if (state === 'answer') return [event];
        if (event.type === 'text-delta') {
          held += event.text;
          if (event.logprobs) logprobs = [...(logprobs ?? []), ...event.logprobs];
          return read();
        }
        const before = finish();
        state = 'answer';
        return [...before, event];
      }),
    finish,
  };
}
