import type { ModelEntry } from '@baobab/core/domain/model.ts';

/** What the settings of a client are made of. Keys are not: clients read BAOBAB_API_KEY, so that no secret is printed or written. */
export interface RecipeValues {
  /** Of the server, without `/v1`. */
  address: string;
  /** A chat model. */
  model: string;
  contextLength: number;
  maxOutputTokens: number;
}

/** Clients compact a conversation when the context less the output is full, so the output leaves room for it. */
export function recipeValues({
  slug,
  contextLength,
  maxOutputTokens,
}: Pick<ModelEntry, 'slug' | 'contextLength' | 'maxOutputTokens'>): Omit<RecipeValues, 'address'> {
  const most = Math.floor(contextLength / 4);
  return { model: slug, contextLength, maxOutputTokens: Math.min(maxOutputTokens ?? most, most) };
}

export interface RecipePart {
  /** `Shell`, the path of a file, or a form of the client. */
  place: string;
  /** Of the block in docs/clients.md. */
  language: string;
  text: string;
}

/** How `baobab launch` starts a client. Its own settings stay as they are: arguments and variables go before them. */
export interface Launch {
  program: string;
  /** The command that installs it. */
  install: string;
  /** About how many tokens of instructions and tools it sends before the first question. */
  instructionTokens: number;
  args(values: RecipeValues): readonly string[];
  /** Undefined removes a variable. */
  env(values: RecipeValues & { key: string }): Readonly<Record<string, string | undefined>>;
}

export interface Recipe {
  /** Its heading in docs/clients.md. */
  name: string;
  parts(values: RecipeValues): readonly RecipePart[];
  launch?: Launch;
}

export const EMBEDDING_MODEL = 'baobab/embed-multilingual';
export const RERANK_MODEL = 'baobab/rerank-mini';
export const AUDIO_MODEL = 'openai/whisper-small';

export const shell = (...lines: readonly string[]): RecipePart => ({
  place: 'Shell',
  language: 'sh',
  text: lines.join('\n'),
});
export const file = (place: string, ...lines: readonly string[]): RecipePart => ({
  place,
  language: place.slice(place.lastIndexOf('.') + 1),
  text: lines.join('\n'),
});
export const form = (place: string, fields: Readonly<Record<string, string>>): RecipePart => {
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
  return { place, language: 'text', text: lines.join('\n') };
};

export const openai = ({ address }: RecipeValues): readonly string[] => [
  `export OPENAI_BASE_URL=${address}/v1`,
  'export OPENAI_API_KEY=$BAOBAB_API_KEY',
];
