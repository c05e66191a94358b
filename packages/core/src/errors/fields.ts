/**
 * Fields of a request in error messages. Outside `http/`, errors name a field by its inner path, such as `['maxTokens']` or
 * `['inputs', 3]`. When `http/` writes the error, it replaces each path by the name that the client used (see
 * `http/answer/field-names.ts`):
 *
 *   throw errors.invalidParameter(['expiresAt'], fieldText`${['expiresAt']} must be in the future.`);
 */
export type FieldPath = readonly (string | number)[];

/** A string is a name that the client knows, and stays as it is. Only `http/` and replies from upstreams use it. */
export type Field = string | FieldPath;

/** The text of a message and the fields that it names. */
export type FieldText = readonly (string | FieldPath)[];

/** `['messages', 3, 'content']` → `messages[3].content` */
export const fieldName = (field: Field): string =>
  typeof field === 'string'
    ? field
    : field.reduce<string>(
        (text, name) => (typeof name === 'number' ? `${text}[${name}]` : text === '' ? name : `${text}.${name}`),
        '',
      );

/** A message with fields: arrays in the template are paths of fields, everything else is text. */
export function fieldText(strings: TemplateStringsArray, ...values: readonly (string | number | Field)[]): FieldText {
  return strings.flatMap((text, index) => {
    const value = values[index];
    if (value === undefined) return [text];
    return [text, typeof value === 'object' ? value : String(value)];
  });
}

export const textOf = (message: string | FieldText): string =>
  typeof message === 'string'
    ? message
    : message.map((part) => (typeof part === 'string' ? part : `'${fieldName(part)}'`)).join('');
