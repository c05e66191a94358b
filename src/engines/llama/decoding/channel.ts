/** A bounded queue between one producer and one consumer. */
export interface Channel<T> {
  /** Waits while the buffer is full; false once the consumer is gone. */
  push(value: T): Promise<boolean>;
  /** No more values; an error reaches the consumer after the buffered values. */
  end(error?: unknown): void;
  /** The consumer is gone: drops what is buffered and wakes the producer. */
  close(): void;
  values(): AsyncGenerator<T, void, void>;
}

export function createChannel<T>(capacity: number): Channel<T> {
  const buffered: T[] = [];
  let ended = false;
  let closed = false;
  let failure: { error: unknown } | undefined;
  let wakeProducer: (() => void) | undefined;
  let wakeConsumer: (() => void) | undefined;

  return {
    async push(value) {
      while (!closed && buffered.length >= capacity) {
        await new Promise<void>((resolve) => {
          wakeProducer = resolve;
        });
      }
      if (closed) return false;
      buffered.push(value);
      wakeConsumer?.();
      return true;
    },
    end(error) {
      ended = true;
      if (error !== undefined) failure = { error };
      wakeConsumer?.();
    },
    close() {
      closed = true;
      buffered.length = 0;
      wakeProducer?.();
    },
    async *values() {
      while (true) {
        const value = buffered.shift();
        if (value !== undefined) {
          wakeProducer?.();
          yield value;
        } else if (ended) {
          if (failure) throw failure.error;
          return;
        } else {
          await new Promise<void>((resolve) => {
            wakeConsumer = resolve;
          });
        }
      }
    },
  };
}
