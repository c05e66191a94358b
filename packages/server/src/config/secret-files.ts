import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { IsArray, IsObject, type TSchema } from 'typebox';
import { snake } from '../validation/names.ts';

export const isSecret = (schema: TSchema): boolean => (schema as { secret?: boolean }).secret === true;

/** The setting that names a file with the value of a secret: `firstKeyFile` for `firstKey`. */
const fileSettingOf = (name: string): string => `${name}File`;

export interface SecretFileOptions {
  workingDirectory: string;
  /** Called with the path of each secret that was read, and the file that it is from. */
  onRead(path: readonly string[], file: string): void;
  /** Called with the path of each setting that is wrong. */
  onProblem(path: readonly string[], problem: string): void;
}

/** Puts the content of the files that `…_file` settings name in the place of the secrets. */
export function readSecretFiles(schema: TSchema, values: unknown, options: SecretFileOptions): void {
  readIn(schema, values, [], options);
}

function readIn(schema: TSchema, values: unknown, path: readonly string[], options: SecretFileOptions): void {
  if (IsArray(schema) && Array.isArray(values)) {
    for (const [index, item] of values.entries()) readIn(schema.items as TSchema, item, [...path, `${index}`], options);
    return;
  }
  if (!IsObject(schema) || typeof values !== 'object' || values === null) return;
  const place = values as Record<string, unknown>;
  for (const [name, child] of Object.entries(schema.properties)) {
    if (isSecret(child)) readSecret(place, name, path, options);
    else readIn(child, place[name], [...path, name], options);
  }
}

function readSecret(
  place: Record<string, unknown>,
  name: string,
  path: readonly string[],
  { workingDirectory, onRead, onProblem }: SecretFileOptions,
): void {
  const setting = fileSettingOf(name);
  const named = place[setting];
  if (typeof named !== 'string') return;
  const problem = (text: string) => onProblem([...path, setting], text);
  if (place[name] !== undefined) {
    problem(`cannot be set together with ${snake(name)}`);
    return;
  }
  const file = resolve(workingDirectory, named);
  // Read again later, when the working directory may be another one.
  place[setting] = file;
  try {
    place[name] = readSecretFile(file);
    onRead([...path, name], file);
  } catch (error) {
    problem((error as Error).message);
  }
}

/** The secret in a file, without the white space around it. Throws what is wrong with the file. */
export function readSecretFile(file: string): string {
  let secret: string;
  try {
    secret = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new Error(`cannot read ${file}: ${systemReason(error)}`, { cause: error });
  }
  if (secret === '') throw new Error(`the file ${file} is empty`);
  if (/[\r\n]/.test(secret)) throw new Error(`the file ${file} has more than one line`);
  return secret;
}
