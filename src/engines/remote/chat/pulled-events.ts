import type { ChatEvent, TakeEvent } from '../../engine.ts';

class NotWanted extends Error {}

/** Iterates over what `run` hands over. It starts with the first `next`, and stops when the consumer returns early. */
export async function* pulledEvents(
  run: (take: TakeEvent) => Promise<void>,
): AsyncGenerator<ChatEvent, void, undefined> {
  let arrival = Promise.withResolvers<ChatEvent | undefined>();
  let demand = Promise.withResolvers<void>();
  const ended = run((event) => {
    arrival.resolve(event);
    return demand.promise;
  });
  ended.then(
    () => arrival.resolve(undefined),
    (error) => arrival.reject(error),
  );
  try {
    for (let event = await arrival.promise; event !== undefined; event = await arrival.promise) {
      yield event;
      const taken = demand;
      arrival = Promise.withResolvers();
      demand = Promise.withResolvers();
      taken.resolve();
    }
  } finally {
    demand.promise.catch(() => {});
    demand.reject(new NotWanted());
    await ended.catch(() => {});
  }
}
