import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** What the words in braces stand for, such as `port`. */
export type Places = Readonly<Record<string, string>>;

const PLACE = /\{([a-z_]+|files\.[^{}]+)\}/g;
const FILE = /\{files\.([^{}]+)\}/g;

/** The files of the model that an argument names. */
export const filesIn = (argument: string): string[] => [...argument.matchAll(FILE)].map(([, name = '']) => name);

/** The argument with its places filled. Other words in braces, such as those of JSON, stay as they are. */
export const fill = (argument: string, places: Places, directory: string): string =>
  argument.replace(PLACE, (whole, name: string) =>
    name.startsWith('files.') ? join(directory, name.slice('files.'.length)) : (places[name] ?? whole),
  );

/** The path of a program: one that was built here, or one on the PATH. Undefined: there is none. */
export function findProgram(name: string, folder: string, path = ''): string | undefined {
  if (name.includes('/')) return isProgram(name) ? name : undefined;
  return [folder, ...path.split(delimiter).filter((each) => each !== '')]
    .map((each) => join(each, name))
    .find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
