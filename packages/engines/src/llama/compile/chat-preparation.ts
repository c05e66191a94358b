import type { PreparationModule } from '@baobab/core/engine/driver.ts';
import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { createGrammarCompiler } from './grammar-compiler.ts';

/** Adds the grammars of its schemas to a request. */
export const createChatPreparation: PreparationModule['createChatPreparation'] = (dependencies) => {
  const compiler = createGrammarCompiler(dependencies);
  return {
    async prepare(request, context) {
      return hasSchemas(request) ? { ...request, prepared: await compiler.compile(request, context) } : request;
    },
    close: compiler.close,
  };
};

const hasSchemas = ({ format, tools = [], toolChoice }: ChatRequest) =>
  format?.type === 'json_schema' || (tools.length > 0 && toolChoice !== 'none');
