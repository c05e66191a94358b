import type { ToolChoice } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';

/** A field of a call or of its result that must have a text. */
export function required<Field extends string>(
  object: Partial<Record<Field, string | null | undefined>>,
  field: Field,
  path: string,
): string {
  const value = object[field];
  if (!value) throw errors.missingParameter(`${path}.${field}`);
  return value;
}

/** Refuses a choice that names a tool which was not sent. `field`: where the client named it. */
export function toolChoiceOf(
  choice: ToolChoice | undefined,
  tools: readonly { name: string }[],
  field = 'tool_choice',
): ToolChoice | undefined {
  if (typeof choice !== 'object') return choice;
  const names = tools.map(({ name }) => name);
  if (names.includes(choice.name)) return choice;
  throw errors.invalidParameter(
    field,
    `'${field}' names '${choice.name}', which is not among the tools: ${names.join(', ')}.`,
  );
}
