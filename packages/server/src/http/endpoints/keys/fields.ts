import { TRUNCATE_INPUTS } from '@baobab/core/domain/model.ts';
import { usdNumberOrNull } from '@baobab/core/domain/money.ts';
import { type Changes, DIALECTS, type FieldKind, type FieldTable } from '@baobab/core/domain/principal.ts';
import { parseScopes } from '@baobab/core/domain/scopes.ts';
import { isoTimeOrNull, parseTimestamp } from '@baobab/core/domain/time/dates.ts';
import { Type } from 'typebox';

/** Larger numbers would lose digits in the store. */
const MAX_LIMIT = 1_000_000_000_000;

export const limit = (description: string, maximum = MAX_LIMIT) =>
  Type.Optional(Type.Union([Type.Integer({ minimum: 1, maximum }), Type.Null()], { description }));

/** Limits of accounts and keys. */
export const limitFields = {
  rpm: limit('Requests a minute'),
  tpm: limit('Tokens a minute'),
  concurrency: limit('Requests at a time'),
  monthly_budget_usd: Type.Optional(
    Type.Union([Type.Number({ minimum: 0, maximum: 9_000_000 }), Type.Null()], {
      description: 'US dollars in a calendar month, UTC',
    }),
  ),
};

/** `otherwise`: what null means. */
export const dialect = (otherwise: string) =>
  Type.Optional(
    Type.Union([Type.Enum([...DIALECTS]), Type.Null()], {
      description: `\`openai\`: times of files in Unix seconds, and 400 where the specification has 422. Null: ${otherwise}`,
    }),
  );

/** `otherwise`: what null means. */
export const truncateInputs = (otherwise: string) =>
  Type.Optional(
    Type.Union([Type.Enum([...TRUNCATE_INPUTS]), Type.Null()], {
      description: `For embeddings and rerank requests that do not say: \`start\` or \`end\` cuts that side of inputs that are too long, \`none\` refuses them. Null: ${otherwise}`,
    }),
  );

const NANO = 1_000_000_000;

/** The names of the fields, but in snake_case, and dollars where they are counted in billionths. */
const wireName = (field: string): string =>
  field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`).replace('nano_usd', 'usd');

export const wireNames = (fields: object): Record<string, string> =>
  Object.fromEntries(Object.keys(fields).map((field) => [field, wireName(field)]));

function valueFromWire(field: string, kind: FieldKind, value: unknown): unknown {
  if (field === 'scopes') return parseScopes(value as string[]);
  if (kind === 'usd') return Math.round((value as number) * NANO);
  return kind === 'time' ? parseTimestamp(value as string, [field]) : value;
}

function valueToWire(kind: FieldKind, value: unknown): unknown {
  if (kind === 'usd') return usdNumberOrNull(value as number | null);
  return kind === 'time' ? isoTimeOrNull(value as number | null) : value;
}

/** The settings that a body has. */
export const fieldsFromWire = <T>(fields: FieldTable, body: object): Changes<T> =>
  Object.fromEntries(
    Object.entries(fields).map(([field, { kind }]) => {
      const value: unknown = body[wireName(field) as keyof typeof body];
      return [field, value === undefined || value === null ? value : valueFromWire(field, kind, value)];
    }),
  ) as Changes<T>;

/** The properties of a key or an account in an answer, which its schema describes. */
export const fieldsToWire = <Shape>(fields: FieldTable, from: object): Shape =>
  Object.fromEntries(
    Object.entries(fields).map(([field, { kind }]) => [
      wireName(field),
      valueToWire(kind, from[field as keyof typeof from]),
    ]),
  ) as Shape;
