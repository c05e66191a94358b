import type { CallContext, ChatEvent, GenerationSink, TokenUsage } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';

/** How many events an engine may send before the sink has taken any: bounds memory and hides the round trip. */
export const STREAM_CREDIT = 64;

/** After a cancel the engine still reports what was used. It stops within a token, so a longer wait means that it is stuck. */
const FINAL_USAGE_GRACE_MS = 5_000;

export interface StreamControl {
  cancel(): void;
  credit(count: number): void;
}

/** The server's end of one stream: hands the events of arriving frames to the sink, and keeps those that come faster than it takes them. */
export class GenerationStream {
  readonly #signal: AbortSignal;
  readonly #sink: GenerationSink;
  readonly #settled = Promise.withResolvers<void>();
  readonly #queue: ChatEvent[] = [];
  #control: StreamControl | undefined;
  /** The sink is taking an event. */
  #taking = false;
  #taken = 0;
  /** How many more events the engine may send. */
  #credit = STREAM_CREDIT;
  /** The engine sends no more. */
  #ended = false;
  #failure: { error: unknown } | undefined;
  /** No more events are wanted. */
  #stopped: { error: unknown } | undefined;
  #graceTimer: NodeJS.Timeout | undefined;

  constructor({ signal }: CallContext, sink: GenerationSink) {
    this.#signal = signal;
    this.#sink = sink;
  }

  /** `open` sends the call. */
  async run(open: () => Promise<StreamControl>): Promise<void> {
    const signal = this.#signal;
    if (signal.aborted) throw cancellation(signal);
    const onAbort = () => this.#stop(cancellation(signal));
    signal.addEventListener('abort', onAbort);
    try {
      this.#control = await open();
      if (this.#stopped !== undefined) this.#cancel(this.#control);
      await this.#settled.promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
      clearTimeout(this.#graceTimer);
    }
  }

  /** Whether the engine waits for the sink. */
  get isBlocked(): boolean {
    return this.#credit === 0;
  }

  onEvent(event: ChatEvent, usage: TokenUsage): void {
    this.#sink.used(usage);
    this.#credit -= 1;
    if (this.#stopped !== undefined) return;
    if (this.#taking) this.#queue.push(event);
    else this.#deliver(event);
  }

  onEnd(usage?: TokenUsage): void {
    if (usage !== undefined) this.#sink.used(usage);
    this.#ended = true;
    this.#settleWhenIdle();
  }

  onError(error: Error, usage?: TokenUsage): void {
    this.#failure = { error };
    this.onEnd(usage);
  }

  #deliver(event: ChatEvent): void {
    try {
      const taken = this.#sink.deliver(event);
      if (!(taken instanceof Promise)) {
        this.#took();
        return;
      }
      this.#taking = true;
      taken.then(
        () => this.#deliverNext(),
        (error: unknown) => {
          this.#taking = false;
          this.#stop(error);
        },
      );
    } catch (error) {
      this.#stop(error);
    }
  }

  #deliverNext(): void {
    this.#taking = false;
    this.#took();
    while (!this.#taking && this.#queue.length > 0) this.#deliver(this.#queue.shift() as ChatEvent);
    this.#settleWhenIdle();
  }

  #took(): void {
    this.#taken += 1;
    if (this.#taken < STREAM_CREDIT / 2 || this.#ended) return;
    this.#control?.credit(this.#taken);
    this.#credit += this.#taken;
    this.#taken = 0;
  }

  #stop(error: unknown): void {
    this.#stopped ??= { error };
    this.#queue.length = 0;
    if (this.#control !== undefined) this.#cancel(this.#control);
    this.#settleWhenIdle();
  }

  #cancel(control: StreamControl): void {
    if (this.#ended || this.#graceTimer !== undefined) return;
    control.cancel();
    this.#graceTimer = setTimeout(() => this.onEnd(), FINAL_USAGE_GRACE_MS);
  }

  #settleWhenIdle(): void {
    if (!this.#ended || this.#taking || this.#queue.length > 0) return;
    const failed = this.#stopped ?? this.#failure;
    if (failed === undefined) this.#settled.resolve();
    else this.#settled.reject(failed.error);
  }
}
