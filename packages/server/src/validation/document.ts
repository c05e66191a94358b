import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { isMap, isNode, isPair, isScalar, LineCounter, parseDocument } from 'yaml';
import { camelKeys, snake } from './names.ts';

export interface YamlDocument {
  /** With camelCase keys. */
  value: unknown;
  /** Why the file cannot be read, or its first syntax error with its place. */
  problems: string[];
  /** `file:line` of a path, or of its nearest parent that exists. */
  locate(path: readonly string[]): string;
}

/** Names below `directory`, in order. Hidden ones and linked folders are left out. Node's own glob takes 30 times as long to begin. */
export function yamlFiles(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true })
    .filter(({ name }) => !name.startsWith('.'))
    .flatMap((entry) => [
      ...(entry.name.endsWith('.yaml') ? [entry.name] : []),
      ...(entry.isDirectory() ? yamlFiles(join(directory, entry.name)).map((name) => join(entry.name, name)) : []),
    ])
    .sort();
}

/** Values of texts without problems. */
export interface ParsedTexts {
  get(text: string): unknown;
  add(text: string, value: unknown): void;
}

export function readYaml(file: string, parsed?: ParsedTexts): YamlDocument {
  let text = '';
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    return { value: undefined, problems: [`${file}: cannot be read: ${systemReason(error)}`], locate: () => file };
  }
  const value = parsed?.get(text);
  if (value !== undefined) return { value, problems: [], locate: (path) => parseYaml(file, text).locate(path) };
  const document = parseYaml(file, text);
  if (document.problems.length === 0) parsed?.add(text, document.value);
  return document;
}

function parseYaml(file: string, text: string): YamlDocument {
  const lines = new LineCounter();
  // The `core` schema keeps dates such as 2026-11-15 as text.
  const document = parseDocument(text, { lineCounter: lines, schema: 'core' });
  // Those after the first are often its consequences.
  const syntaxErrors = document.errors.slice(0, 1);
  const at = (offset: number | undefined) => `${file}:${offset === undefined ? 1 : lines.linePos(offset).line}`;

  const locate = (path: readonly string[]): string => {
    let node: unknown = document.contents;
    let offset: number | undefined;
    for (const [depth, name] of path.entries()) {
      if (isMap(node)) {
        const wanted = snake(name);
        const pair = node.items.find((item) => isPair(item) && isScalar(item.key) && String(item.key.value) === wanted);
        if (pair === undefined) break;
        if (isNode(pair.key)) offset = pair.key.range?.[0];
        node = pair.value;
      } else {
        node = document.getIn(path.slice(0, depth + 1).map(snake), true);
        if (!isNode(node)) break;
        offset = node.range?.[0];
      }
    }
    return at(offset);
  };

  return {
    value: syntaxErrors.length > 0 ? undefined : camelKeys(document.toJS()),
    problems: syntaxErrors.map((error) => `${at(error.pos[0])}: ${error.message.split('\n')[0]?.replace(/:$/, '')}`),
    locate,
  };
}

/** Problems of one file in the order of its lines, then all others. */
export function inOrderOfLines(file: string, problems: readonly string[]): string[] {
  const lineOf = (problem: string) =>
    problem.startsWith(`${file}:`) ? Number.parseInt(problem.slice(file.length + 1), 10) : Number.MAX_SAFE_INTEGER;
  return problems.toSorted((left, right) => lineOf(left) - lineOf(right));
}
