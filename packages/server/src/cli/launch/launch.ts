import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { nearest, nearestSlug } from '@baobab/core/runtime/nearest.ts';
import { openCatalogForReading } from '../../compose/administration.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { type Command, CommandFailed, UsageError } from '../command.ts';
import { localAddress } from '../local-address.ts';
import { parseOptions } from '../options.ts';
import { table } from '../table.ts';
import type { RecipePart, RecipeValues } from './recipe.ts';
import { RECIPES } from './recipes.ts';

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

/** Clients compact a conversation when the context less the output is full, so the output leaves room for it. */
export function recipeValues({ slug, contextLength, maxOutputTokens }: ModelEntry): Omit<RecipeValues, 'address'> {
  const most = Math.floor(contextLength / 4);
  return { model: slug, contextLength, maxOutputTokens: Math.min(maxOutputTokens ?? most, most) };
}

const shown = ({ place, text }: RecipePart): string => `# ${place}\n${text}`;

export const launchCommand: Command = {
  forms: [
    ['', 'the clients'],
    ['--print <client>', 'the settings that make a client use this server'],
  ],
  options: [
    ['--model SLUG', `chat model of the client (default ${DEFAULT_MODEL})`],
    ['--address URL', "address of the server, without /v1 (default: host and port of this server's settings)"],
  ],
  notes: ['Keys are not printed: the settings use the variable BAOBAB_API_KEY. docs/clients.md explains them.'],
  async run({ args, config, print, warn }) {
    const { values, positionals } = parseOptions(args, {
      print: { type: 'boolean' },
      model: { type: 'string' },
      address: { type: 'string' },
    });
    const [client, ...more] = positionals;
    if (more.length > 0) throw new UsageError(`unexpected argument '${more.join(' ')}'`);
    if (client === undefined) {
      if (values.print) throw new UsageError("--print needs a client; 'baobab launch' lists them");
      const rows = Object.entries(RECIPES).map(([id, { name }]) => [id, name]);
      print(table(['CLIENT', 'NAME'], rows));
      return;
    }
    const recipe = Object.hasOwn(RECIPES, client) ? RECIPES[client] : undefined;
    if (recipe === undefined) {
      const meant = nearest(client, Object.keys(RECIPES));
      const hint = meant === undefined ? "'baobab launch' lists them" : `did you mean '${meant}'?`;
      throw new CommandFailed(`there are no settings for '${client}'; ${hint}`);
    }
    if (!values.print) throw new UsageError(`write 'baobab launch --print ${client}' to see its settings`);
    const entry = await chatModel(config, values.model ?? DEFAULT_MODEL);
    if (values.model === undefined) {
      warn?.(
        `These settings are for ${DEFAULT_MODEL}. --model chooses another one; 'baobab models list' shows those served here.`,
      );
    }
    const address = (values.address ?? localAddress(config)).replace(/\/+$/, '');
    print(
      recipe
        .parts({ address, ...recipeValues(entry) })
        .map(shown)
        .join('\n\n'),
    );
  },
};
