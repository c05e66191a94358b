import type { ChatPreparation, PreparationModule } from '@baobab/core/engine/driver.ts';
import type { ChatCapability, EngineModel } from '@baobab/core/engine/engine.ts';

import { createFairQueue } from '../admission/fair-queue.ts';

/** Imports the driver's module with the first request. */
export function lazyPreparation(module: URL): ChatPreparation {
  let loading: Promise<ChatPreparation> | undefined;
  const load = async () => {
    const { createChatPreparation }: PreparationModule = await import(module.href);
    return createChatPreparation({ createQueue: createFairQueue });
  };
  return {
    async prepare(request, context) {
      loading ??= load();
      return (await loading).prepare(request, context);
    },
    async close() {
      await (await loading)?.close();
    },
  };
}

/** The same model, whose chat requests go through the driver's preparation first. */
export function withPreparedChat(engine: EngineModel, preparation: ChatPreparation | undefined): EngineModel {
  const { chat } = engine;
  if (chat === undefined || preparation === undefined) return engine;
  return { ...engine, chat: preparedChat(chat, preparation) };
}

function preparedChat(chat: ChatCapability, preparation: ChatPreparation): ChatCapability {
  return {
    ...(chat.countTokens && {
      countTokens: async (request, context) =>
        chat.countTokens?.(await preparation.prepare(request, context), context) ?? 0,
    }),
    generate: async (request, context, sink) =>
      chat.generate(await preparation.prepare(request, context), context, sink),
  };
}
