import { cancellation } from '../../../errors/cancellation.ts';
import { errors } from '../../../errors/errors.ts';
import type { CallContext, Priority } from '../../engine.ts';

export interface WaitingRoom<T> {
  /** Waits until `attempt` gives something; it may throw to end the wait. */
  wait(context: CallContext, attempt: () => T | undefined): Promise<T>;
  /** Something was freed or has changed: lets everybody who can proceed do so, in fair order. */
  wake(): void;
  readonly size: number;
}

interface Waiter {
  /** True when it left the room. */
  proceed(): boolean;
}

/** Interactive before batch; inside each, the keys take turns. */
export function createWaitingRoom<T>(options: { places: number; timeoutMs: number }): WaitingRoom<T> {
  // By insertion order; a key that was served moves to the end.
  const queues: Record<Priority, Map<string, Waiter[]>> = { interactive: new Map(), batch: new Map() };
  let size = 0;

  const leave = (context: CallContext, waiter: Waiter): void => {
    const queue = queues[context.priority].get(context.keyId);
    const at = queue?.indexOf(waiter) ?? -1;
    if (queue === undefined || at === -1) return;
    queue.splice(at, 1);
    size -= 1;
    if (queue.length === 0) queues[context.priority].delete(context.keyId);
  };

  const wakeClass = (keys: Map<string, Waiter[]>): void => {
    for (let progress = true; progress; ) {
      progress = false;
      for (const [keyId, queue] of [...keys]) {
        // Not only the first: a later one may ask for a region that has room.
        if (!queue.slice().some((waiter) => waiter.proceed())) continue;
        progress = true;
        if (keys.delete(keyId) && queue.length > 0) keys.set(keyId, queue);
      }
    }
  };

  return {
    get size() {
      return size;
    },
    wait(context, attempt) {
      if (size >= options.places) {
        return Promise.reject(errors.capacityExceeded(1, `${options.places} requests are waiting already`));
      }
      return new Promise<T>((resolve, reject) => {
        const finish = (settle: () => void): void => {
          clearTimeout(timer);
          context.signal.removeEventListener('abort', onAbort);
          leave(context, waiter);
          settle();
        };
        const waiter: Waiter = {
          proceed() {
            try {
              const result = attempt();
              if (result === undefined) return false;
              finish(() => resolve(result));
            } catch (error) {
              finish(() => reject(error));
            }
            return true;
          },
        };
        const onAbort = (): void => finish(() => reject(cancellation(context.signal)));
        const timer = setTimeout(
          () => finish(() => reject(errors.upstreamTimeout('no place to run it became free'))),
          options.timeoutMs,
        );
        context.signal.addEventListener('abort', onAbort, { once: true });
        const keys = queues[context.priority];
        const queue = keys.get(context.keyId);
        if (queue === undefined) keys.set(context.keyId, [waiter]);
        else queue.push(waiter);
        size += 1;
      });
    },
    wake() {
      if (size === 0) return;
      wakeClass(queues.interactive);
      wakeClass(queues.batch);
    },
  };
}
