import { cancellation } from '../../../errors/cancellation.ts';
import type { CallContext, ChatEvent, ChatGeneration, TokenUsage } from '../../engine.ts';

/** How many events an engine may send before the consumer has taken any: bounds memory and hides the round trip. */
export const STREAM_CREDIT = 64;

/** After a cancel the engine still reports what was used. It stops within a token, so a longer wait means that it is stuck. */
const FINAL_USAGE_GRACE_MS = 5_000;

/** The server's end of one stream, driven by the frames that arrive for it. */
export interface StreamSink {
  onEvent(event: ChatEvent, usage: TokenUsage): void;
  onEnd(usage?: TokenUsage): void;
  onError(error: Error, usage?: TokenUsage): void;
  /** True while the engine waits for the consumer. */
  blocked(): boolean;
}

export interface StreamControl {
  cancel(): void;
  credit(count: number): void;
}

/** `open` is called when the consumer asks for the first event. */
export function createGenerationStream(
  context: CallContext,
  open: (sink: StreamSink) => Promise<StreamControl>,
): ChatGeneration {
  let usage: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
  const queue: ChatEvent[] = [];
  let outstanding = STREAM_CREDIT;
  let ended = false;
  let failure: Error | undefined;
  let wake = () => {};

  const finish = (last: TokenUsage | undefined, error?: Error) => {
    usage = last ?? usage;
    failure = error;
    ended = true;
    wake();
  };
  const sink: StreamSink = {
    onEvent(event, current) {
      usage = current;
      outstanding -= 1;
      queue.push(event);
      wake();
    },
    onEnd: (last) => finish(last),
    onError: (error, last) => finish(last, error),
    blocked: () => outstanding === 0,
  };

  const changed = () =>
    new Promise<void>((resolve) => {
      wake = resolve;
    });

  async function stop(control: StreamControl): Promise<void> {
    control.cancel();
    const timer = setTimeout(() => sink.onEnd(), FINAL_USAGE_GRACE_MS);
    while (!ended) await changed();
    clearTimeout(timer);
  }

  async function* events(): AsyncGenerator<ChatEvent, void, void> {
    const { signal } = context;
    const onAbort = () => wake();
    signal.addEventListener('abort', onAbort);
    let control: StreamControl | undefined;
    let taken = 0;
    try {
      if (signal.aborted) throw cancellation(signal);
      control = await open(sink);
      while (true) {
        if (signal.aborted) throw cancellation(signal);
        const event = queue.shift();
        if (event !== undefined) {
          yield event;
          taken += 1;
          if (taken >= STREAM_CREDIT / 2 && !ended) {
            control.credit(taken);
            outstanding += taken;
            taken = 0;
          }
        } else if (failure !== undefined) {
          throw failure;
        } else if (ended) {
          return;
        } else {
          await changed();
        }
      }
    } finally {
      signal.removeEventListener('abort', onAbort);
      if (control !== undefined && !ended) await stop(control);
    }
  }

  const iterator = events();
  return { usageSoFar: () => ({ ...usage }), [Symbol.asyncIterator]: () => iterator };
}
