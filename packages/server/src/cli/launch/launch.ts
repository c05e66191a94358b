import { nearest, nearestSlug } from '@baobab/core/runtime/nearest.ts';
import { openCatalogForReading } from '../../compose/administration.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { ADDRESS_HELP, addressOf } from '../api-client.ts';
import { type Command, CommandFailed, UsageError } from '../command.ts';
import { dollarsOption, parseOptions } from '../options.ts';
import { table } from '../table.ts';
import { type RecipePart, recipeValues } from './recipe.ts';
import { RECIPES } from './recipes.ts';
import { DEFAULT_BUDGET_USD, startClient } from './start.ts';

const DEFAULT_MODEL = 'qwen/qwen3-8b';
async function chatModel(config: ResolvedConfig, name: string) {
  const { entries } = await openCatalogForReading(config);
  const chats = entries.filter(({ modality }) => modality === 'chat');
  const entry = chats.find(({ slug }) => slug === name);
  if (entry !== undefined) return entry;
  const meant = nearestSlug(
    name,
    chats.map(({ slug }) => slug),
  );
  const hint = meant === undefined ? "'baobab models list --all' shows them" : `did you mean '${meant}'?`;
  throw new CommandFailed(`there is no chat model '${name}'; ${hint}`);
}

const shown = ({ place, text }: RecipePart): string => `# ${place}\n${text}`;

export const launchCommand: Command = {
  forms: [
    ['', 'the clients'],
    [
      `${Object.keys(RECIPES)
        .filter((id) => RECIPES[id]?.launch)
        .join('|')} [-- arguments]`,
      'start it with this server, a model and a key of its own',
    ],
    ['--print <client>', 'the settings that make a client use this server'],
  ],
  options: [
    [
      '--model SLUG',
      `chat model of the client (default: the first that GET /v1/models lists and that fits; with --print ${DEFAULT_MODEL})`,
    ],
    [
      '--budget USD',
      `what its key may spend in a calendar month (default ${DEFAULT_BUDGET_USD}; afterwards as it was)`,
    ],
    ADDRESS_HELP,
  ],
  notes: [
    'The variable BAOBAB_API_KEY has your key. A client that is started gets a key of its own, launch-<client>, which is rotated at each start; keys of earlier starts end after a day. ' +
      'Nothing is written into the settings of the client. --print prints no key: the settings use the variable. docs/clients.md explains them.',
  ],
  async run(context) {
    const { config, print, warn } = context;
    const end = context.args.indexOf('--');
    const [args, passed] = end === -1 ? [context.args, []] : [context.args.slice(0, end), context.args.slice(end + 1)];
    const { values, positionals } = parseOptions(args, {
      print: { type: 'boolean' },
      model: { type: 'string' },
      budget: { type: 'string' },
      address: { type: 'string' },
    });
    const [client, ...more] = positionals;
    if (more.length > 0) {
      throw new UsageError(`unexpected argument '${more.join(' ')}'; arguments of the client follow after --`);
    }
    const budgetNanoUsd = dollarsOption('budget', values.budget);
    if (client === undefined) {
      if (values.print) throw new UsageError("--print needs a client; 'baobab launch' lists them");
      const rows = Object.entries(RECIPES).map(([id, { name, launch }]) => [id, name, launch ? 'yes' : '-']);
      print(table(['CLIENT', 'NAME', 'STARTS'], rows));
      return;
    }
    const recipe = Object.hasOwn(RECIPES, client) ? RECIPES[client] : undefined;
    if (recipe === undefined) {
      const meant = nearest(client, Object.keys(RECIPES));
      const hint = meant === undefined ? "'baobab launch' lists them" : `did you mean '${meant}'?`;
      throw new CommandFailed(`there are no settings for '${client}'; ${hint}`);
    }
    const address = addressOf(values.address, config);
    if (!values.print) {
      const { launch, name } = recipe;
      if (launch === undefined) throw new UsageError(`write 'baobab launch --print ${client}' to see its settings`);
      await startClient(context, { id: client, name, launch, address, model: values.model, budgetNanoUsd, passed });
      return;
    }
    const entry = await chatModel(config, values.model ?? DEFAULT_MODEL);
    if (values.model === undefined) {
      warn?.(
        `These settings are for ${DEFAULT_MODEL}. --model chooses another one; 'baobab models list' shows those served here.`,
      );
    }
    print(
      recipe
        .parts({ address, ...recipeValues(entry) })
        .map(shown)
        .join('\n\n'),
    );
  },
};
