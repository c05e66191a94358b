import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { RECIPES } from '../../packages/server/src/cli/launch/recipes.ts';
import type { ClientContext } from './client.ts';

export interface Places {
  home: string;
  /** Where the client runs. */
  directory: string;
}

export interface Prepared {
  /** For `sh -e -c`. */
  script: string;
  env: Record<string, string>;
}

/** The name of a client in the table of `baobab launch`. */
export const nameOf = (id: string): string => RECIPES[id]?.name ?? id;

/** Writes the files that `baobab launch --print` prints, and returns its shell lines. `start` changes the last one, the command itself. */
export async function prepare(
  id: string,
  { address, apiKey, model, installation }: ClientContext,
  { home, directory }: Places,
  start: (command: string) => string,
): Promise<Prepared> {
  const parts = RECIPES[id]?.parts({ address, model, contextLength: 32_768, maxOutputTokens: 8192 }) ?? [];
  for (const { place, text } of parts.filter((each) => each.place !== 'Shell')) {
    const path = place.startsWith('~/') ? join(home, place.slice(2)) : join(directory, place);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
  const lines = parts.find(({ place }) => place === 'Shell')?.text.split('\n') ?? [];
  const script = [...lines.slice(0, -1), start(lines.at(-1) ?? '')].join('\n');
  const programs = ['node_modules/.bin', `${id}/bin`].map((each) => join(installation, each));
  return { script, env: { PATH: [...programs, process.env.PATH].join(':'), HOME: home, BAOBAB_API_KEY: apiKey } };
}
