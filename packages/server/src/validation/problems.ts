import { nearest } from '@baobab/core/runtime/nearest.ts';
import { IsObject, type TSchema } from 'typebox';
import { Settings } from 'typebox/system';
import { Value } from 'typebox/value';
import { expectation, schemaAt } from './expectation.ts';
import { snake } from './names.ts';

/** TypeBox stops at 8 errors. Operators want to see every mistake in a file at once. */
Settings.Set({ maxErrors: 1_000 });

/** For `files.max_bytes: 5`, as messages and lists of settings write it. */
function nestedHint(parent: TSchema | undefined, name: string): string | undefined {
  const names = name.split('.');
  if (parent === undefined || names.length < 2 || schemaAt(parent, names) === undefined) return undefined;
  const written = names
    .map(snake)
    .reduceRight((inner, outer) => (inner === '' ? `${outer}: …` : `${outer}: { ${inner} }`), '');
  return `nest it, as in '${written}'; `;
}

/** All errors of a value, one line each: place, key and what is allowed. `at` is the path of the value. */
export function problemsOf(
  schema: TSchema,
  value: unknown,
  locate: (path: readonly string[]) => string,
  at: readonly string[] = [],
): string[] {
  // To list errors takes ten times as long as to see that there are none.
  if (Value.Check(schema, value)) return [];
  const found = new Map<string, string>();
  const report = (below: readonly string[], text: string) => {
    const path = [...at, ...below];
    const key = path.map(snake).join('.');
    if (!found.has(key)) found.set(key, `${locate(path)}: ${key === '' ? '' : `${key}: `}${text}`);
  };
  for (const error of Value.Errors(schema, value)) {
    const path = error.instancePath.split('/').slice(1);
    if (error.keyword === 'required') {
      for (const name of error.params.requiredProperties) report([...path, name], 'is required');
    } else if (error.keyword === 'additionalProperties') {
      const parent = schemaAt(schema, path);
      const known = parent !== undefined && IsObject(parent) ? Object.keys(parent.properties).map(snake) : [];
      for (const name of error.params.additionalProperties) {
        const meant = nearest(snake(name), known);
        const hint = nestedHint(parent, name) ?? (meant === undefined ? '' : `did you mean ${meant}? `);
        report([...path, name], `unknown key${known.length > 0 ? `; ${hint}allowed here: ${known.join(', ')}` : ''}`);
      }
    } else if (error.keyword !== 'boolean') {
      report(path, expectation(schemaAt(schema, path)));
    }
  }
  return [...found.values()];
}
