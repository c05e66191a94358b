import { text as readAll } from 'node:stream/consumers';
import { ADDRESS_HELP, accessFrom, addressOf, listChatModels, modelNamed } from '../api-client.ts';
import { type Command, UsageError } from '../command.ts';
import { parseOptions } from '../options.ts';
import { streamAnswer } from './answer.ts';
import { converse, showAnswer } from './conversation.ts';

export const tryCommand: Command = {
  forms: [
    ['', 'a chat in this terminal, until /bye or Ctrl-D'],
    ['<question>', 'one answer, as it is written; the question may also come from a pipe'],
  ],
  options: [['--model SLUG', 'chat model (default: the first that GET /v1/models lists)'], ADDRESS_HELP],
  notes: ['The variable BAOBAB_API_KEY has the key. It is billed as any request is.'],
  async run({ args, config, env, terminal, stdin, print, write = print, warn }) {
    const { values, positionals } = parseOptions(args, { model: { type: 'string' }, address: { type: 'string' } });
    const typed = positionals.join(' ');
    const isChat = typed === '' && terminal !== undefined;
    const question = typed === '' && !isChat && stdin !== undefined ? (await readAll(stdin)).trim() : typed;
    if (question === '' && !isChat) throw new UsageError('what to ask is missing');
    const access = accessFrom(env, addressOf(values.address, config));
    const models = await listChatModels(access);
    const id = values.model ?? models[0].id;
    // The server knows best why it does not have a model.
    const model = modelNamed(models, id) ?? { id };
    if (isChat) {
      await converse({ access, model, terminal, print, write });
      return;
    }
    const messages = [{ role: 'user' as const, content: question }];
    if (terminal !== undefined) {
      await showAnswer({ terminal, write }, { access, model, messages });
      return;
    }
    const { summary } = await streamAnswer({ access, model, messages, onText: write });
    print('');
    warn?.(summary);
  },
};
