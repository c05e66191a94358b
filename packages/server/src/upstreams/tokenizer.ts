import type { CallContext, ChatRequest, TextTokenizer } from '@baobab/core/engine/engine.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import type { AskedModel, DialectTokenizer } from './dialects/dialect.ts';
import { noTokenRoute } from './failure/failure.ts';
import type { Route } from './routing/router.ts';
import { askOver } from './token-counts.ts';

/** The tokenizer of a model that upstreams run. Those that have none refuse. */
export function createRemoteTokenizer(route: Route) {
  async function ask<T>(
    context: CallContext,
    field: FieldPath,
    use: (tokenizer: DialectTokenizer, of: AskedModel) => Promise<T | undefined>,
  ): Promise<T> {
    const [found] = await route.run(context, async (call) => {
      const { dialect, model } = call.upstream;
      if (dialect.tokenizer === undefined) throw noTokenRoute('its kind of server has no route for tokens');
      const value = await use(dialect.tokenizer, { model, ask: askOver(call, field) });
      if (value === undefined) throw call.malformed('the answer has no tokens');
      return value;
    });
    return found;
  }

  const tokenizer: TextTokenizer = {
    encode: (text, special, context) => ask(context, ['prompt'], (of, model) => of.encode(text, special, model)),
    decode: (tokens, context) => ask(context, ['tokens'], (of, model) => of.decode(tokens, model)),
  };
  const encode = ({ prompt, tools = [], answerStart }: ChatRequest, context: CallContext): Promise<number[]> => {
    const messages = 'messages' in prompt ? prompt.messages : [];
    return ask(context, ['messages'], (of, model) => of.encodeChat({ messages, tools, answerStart }, model));
  };
  return { tokenizer, encode };
}
