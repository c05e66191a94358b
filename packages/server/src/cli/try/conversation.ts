import { nearestSlug } from '@baobab/core/runtime/nearest.ts';
import { type ApiAccess, type ListedModel, listChatModels, modelNamed } from '../api-client.ts';
import { CommandFailed } from '../command.ts';
import { readEntry, type Terminal, writeDim } from '../terminal.ts';
import { type Question, streamAnswer, type Turn } from './answer.ts';
import { showWaiting } from './waiting.ts';

export interface ConversationOptions {
  access: ApiAccess;
  model: ListedModel;
  terminal: Terminal;
  print(text: string): void;
  write(text: string): void;
}

const HELP = `/model [slug]  show the models, or take another one
/clear         forget what was said
/bye           end, as Ctrl-D does
Ctrl-C stops an answer.`;

function chooseModel(models: readonly ListedModel[], name: string): ListedModel {
  const found = modelNamed(models, name);
  if (found !== undefined) return found;
  const meant = nearestSlug(
    name,
    models.map(({ id }) => id),
  );
  const hint = meant === undefined ? '/model shows those that there are' : `did you mean '${meant}'?`;
  throw new CommandFailed(`there is no chat model '${name}' for this key; ${hint}`);
}

type Asked = Pick<Question, 'access' | 'model' | 'messages' | 'signal'>;

/** Streams an answer to a terminal, with what it waits for before and what it took after. */
export async function showAnswer(
  { terminal, write }: Pick<ConversationOptions, 'terminal' | 'write'>,
  asked: Asked,
): Promise<string> {
  const stopWaiting = showWaiting(terminal, asked.access, asked.model);
  let isThinking = false;
  try {
    const { text, summary } = await streamAnswer({
      ...asked,
      onThought(thought) {
        stopWaiting();
        isThinking = true;
        writeDim(terminal, thought);
      },
      onText(part) {
        stopWaiting();
        if (isThinking) write('\n\n');
        isThinking = false;
        write(part);
      },
    });
    stopWaiting();
    write('\n');
    writeDim(terminal, `${summary}\n`);
    return text;
  } finally {
    stopWaiting();
  }
}

/** A chat until /bye or Ctrl-D. */
export async function converse({ terminal, print, ...options }: ConversationOptions): Promise<void> {
  let { model } = options;
  let messages: Turn[] = [];
  const history: string[] = [];
  let running: AbortController | undefined;
  // The terminal sends it to every process of the command, which may pass it on once more.
  const onInterrupt = () => running?.abort();
  process.on('SIGINT', onInterrupt);

  async function ask(question: string): Promise<void> {
    const asked: Turn[] = [...messages, { role: 'user', content: question }];
    running = new AbortController();
    try {
      const { signal } = running;
      const text = await showAnswer({ terminal, write: options.write }, { ...options, model, messages: asked, signal });
      messages = text === '' ? messages : [...asked, { role: 'assistant', content: text }];
    } finally {
      running = undefined;
    }
  }

  async function obey(command: string, argument: string | undefined): Promise<void> {
    if (command === '/model' && argument !== undefined) {
      model = chooseModel(await listChatModels(options.access), argument);
      print(`${model.id} answers from now on`);
    } else if (command === '/model') {
      for (const { id, status } of await listChatModels(options.access)) {
        print(
          `${id === model.id ? '*' : ' '} ${id}${status === undefined || status === 'ready' ? '' : ` (${status})`}`,
        );
      }
    } else if (command === '/clear') messages = [];
    else print(HELP);
  }

  writeDim(terminal, `${model.id} answers. /? shows the commands, Ctrl-D ends.\n`);
  try {
    for (;;) {
      const entry = await readEntry(terminal, {
        prompt: '>>> ',
        history,
        onInterrupt: () => writeDim(terminal, 'Ctrl-D or /bye ends.\n'),
      });
      const text = entry?.trim();
      if (text === undefined || text === '/bye') break;
      try {
        const [command = '', argument] = text.split(/\s+/);
        if (/^\/(\?|[a-z]+)$/.test(command)) await obey(command, argument);
        else if (text !== '') await ask(text);
      } catch (error) {
        if (!(error instanceof CommandFailed)) throw error;
        print(error.message);
      }
    }
  } finally {
    process.off('SIGINT', onInterrupt);
  }
}
