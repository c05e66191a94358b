import type { ChatEvent } from '@baobab/core/engine/engine.ts';
import type { ChatSink } from '../../../inference/chat-command.ts';

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

export interface GatheringSink {
  sink: ChatSink;
  /** Passes on what is left. Rejects with the first error of the inner sink. */
  drain(): Promise<void>;
  /** Drops what is left. */
  stop(): void;
}

/** Joins the deltas that arrive within this time, for a sink that is expensive to call. For one choice. */
export function gatherDeltas(inner: ChatSink, gatherMs: number): GatheringSink {
  let gathered: ChatEvent[] = [];
  let timer: NodeJS.Timeout | undefined;
  let passing = Promise.resolve();

  async function pass(): Promise<void> {
    const events = gathered;
    gathered = [];
    for (const event of events) await inner(0, event);
  }
  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    passing = passing.then(pass);
    // Reported by `drain`.
    passing.catch(() => {});
    return passing;
  }

  return {
    sink(_choice, event) {
      const one = joined(gathered.at(-1), event);
      if (one === undefined) gathered.push(event);
      else gathered[gathered.length - 1] = one;
      timer ??= setTimeout(flush, gatherMs);
    },
    drain: flush,
    stop() {
      clearTimeout(timer);
      gathered = [];
    },
  };
}
