import type { CallContext, ChatCapability, ChatEvent, ChatRequest, GenerationSink, TokenUsage } from '../engine.ts';

class NotWanted extends Error {}

/** A generation that tests iterate over. It starts with the first `next`, and stops when the consumer returns early. */
export interface PulledGeneration extends AsyncIterable<ChatEvent> {
  usageSoFar(): TokenUsage;
  servedRegion(): string | undefined;
}

export function pulled(chat: ChatCapability | undefined, request: ChatRequest, context: CallContext): PulledGeneration {
  if (chat === undefined) throw new Error('The model cannot chat');
  let usage: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
  let region: string | undefined;
  const used: GenerationSink['used'] = (current, servedRegion) => {
    usage = current;
    region = servedRegion;
  };
  const events = pulledEvents((deliver) => chat.generate(request, context, { deliver, used }));
  return { usageSoFar: () => usage, servedRegion: () => region, [Symbol.asyncIterator]: () => events };
}

/** Iterates over what `run` delivers. */
export async function* pulledEvents(
  run: (deliver: GenerationSink['deliver']) => Promise<void>,
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

/** A chat capability whose answers are given by a generator. All of `usage` is used as soon as it starts. */
export const scriptedChat = (
  events: (request: ChatRequest) => AsyncIterable<ChatEvent>,
  usage: TokenUsage,
): ChatCapability => ({
  async generate(request, _context, sink) {
    sink.used(usage);
    for await (const event of events(request)) await sink.deliver(event);
  },
});
