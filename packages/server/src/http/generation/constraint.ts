import type { OutputFormat } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type Static, Type } from 'typebox';
import type { FieldNames } from '../answer/field-names.ts';
import { anyMembers, label, listOf, optional, text } from '../body/bounded.ts';

const JsonSchema = anyMembers();
const MAX_CHOICES = 1_024;

const ResponseFormat = Type.Union([
  Type.Object({ type: Type.Literal('text') }),
  Type.Object({ type: Type.Literal('json_object'), schema: optional(JsonSchema) }),
  Type.Object({
    type: Type.Literal('json_schema'),
    json_schema: Type.Object({
      name: optional(label()),
      description: optional(text()),
      schema: optional(JsonSchema),
      strict: optional(Type.Boolean()),
    }),
  }),
]);

const Schema = Type.Union([JsonSchema, text()]);
const Regex = label({ minLength: 1 });
const Choice = listOf(label({ minLength: 1 }), { minItems: 1, maxItems: MAX_CHOICES });
const Grammar = text({ minLength: 1 });

/** What an answer has to be: OpenAI's field, those of vLLM, now and before version 0.12, and those of llama-server. */
export const constraintFields = {
  response_format: optional(ResponseFormat, 'Text, any JSON object, or JSON that fits a schema'),
  structured_outputs: optional(
    Type.Object({
      json: optional(Schema, 'JSON schema'),
      regex: optional(Regex, 'The whole answer matches'),
      choice: optional(Choice, 'One of these texts'),
      grammar: optional(Grammar, 'GBNF'),
      json_object: optional(Type.Boolean(), 'Any JSON object'),
      structural_tag: optional(Type.Unknown(), 'Not supported'),
    }),
    'As vLLM has it: one of the members says what the answer has to be',
  ),
  guided_json: optional(Schema, 'As `structured_outputs.json`'),
  guided_regex: optional(Regex, 'As `structured_outputs.regex`'),
  guided_choice: optional(Choice, 'As `structured_outputs.choice`'),
  guided_grammar: optional(Grammar, 'As `structured_outputs.grammar`'),
  json_schema: optional(Schema, 'As `structured_outputs.json`, as llama-server has it'),
  grammar: optional(text(), 'As `structured_outputs.grammar`, as llama-server has it'),
};

const fields = Type.Object(constraintFields);
export type ConstraintBody = Static<typeof fields>;

function schemaOf(given: Static<typeof Schema>, field: string): Record<string, unknown> {
  if (typeof given !== 'string') return given;
  try {
    const value: unknown = JSON.parse(given);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  } catch {
    // The error is the same.
  }
  throw errors.invalidParameter(field, `'${field}' is a text that is no JSON object. Send the schema as an object.`);
}

function responseFormat(format: NonNullable<ConstraintBody['response_format']>): OutputFormat {
  if (format.type === 'text') return format;
  // Some clients send the schema here.
  if (format.type === 'json_object')
    return format.schema ? { type: 'json_schema', schema: format.schema } : { type: 'json_object' };
  const { name, schema, strict } = format.json_schema;
  if (!schema) throw errors.missingParameter('response_format.json_schema.schema');
  return { type: 'json_schema', name: name ?? undefined, schema, strict: strict ?? undefined };
}

interface Constraints {
  json?: Static<typeof Schema> | null | undefined;
  regex?: string | null | undefined;
  choice?: readonly string[] | null | undefined;
  grammar?: string | null | undefined;
}

interface Given {
  /** As the client sent it. */
  field: string;
  /** Throws when it cannot be used. */
  read(): OutputFormat;
}

function givenFormats(body: ConstraintBody): Given[] {
  const found: Given[] = [];
  const add = <Value>(field: string, value: Value | null | undefined, formatOf: (value: Value) => OutputFormat) => {
    // llama-server's clients send an empty grammar for none.
    if (value !== null && value !== undefined && value !== '') found.push({ field, read: () => formatOf(value) });
  };
  const addAll = (prefix: string, { json, regex, choice, grammar }: Constraints) => {
    add(`${prefix}json`, json, (given) => ({ type: 'json_schema', schema: schemaOf(given, `${prefix}json`) }));
    add(`${prefix}regex`, regex, (pattern) => ({ type: 'regex', pattern }));
    add(`${prefix}choice`, choice, (texts) => ({ type: 'choice', texts }));
    add(`${prefix}grammar`, grammar, (text) => ({ type: 'grammar', grammar: text }));
  };
  const { response_format: format, structured_outputs: outputs, json_schema: schema, grammar } = body;
  if (format?.type !== 'text') add('response_format', format, responseFormat);
  if (outputs) {
    addAll('structured_outputs.', outputs);
    add('structured_outputs.json_object', outputs.json_object || undefined, () => ({ type: 'json_object' }));
    add('structured_outputs.structural_tag', outputs.structural_tag, () => {
      const field = 'structured_outputs.structural_tag';
      throw errors.unsupportedParameter(
        field,
        `'${field}' is not supported. Send a schema, a regex, a choice or a grammar.`,
      );
    });
  }
  const { guided_json: json, guided_regex: regex, guided_choice: choice, guided_grammar: guided } = body;
  addAll('guided_', { json, regex, choice, grammar: guided });
  addAll('', { grammar });
  add('json_schema', schema, (given) => ({ type: 'json_schema', schema: schemaOf(given, 'json_schema') }));
  return found;
}

/** Undefined: any text. */
export function formatOf(body: ConstraintBody): OutputFormat | undefined {
  const [first, second] = givenFormats(body);
  if (first === undefined || second === undefined) return first?.read();
  throw errors.invalidParameter(
    second.field,
    `'${second.field}' cannot be combined with '${first.field}': send one of the two.`,
  );
}

/** The names under which errors know the format of this body. */
export function formatNames(body: ConstraintBody): FieldNames {
  const field = givenFormats(body)[0]?.field ?? 'response_format';
  const isPlain = body.response_format?.type === 'json_object';
  const ofSchema = field === 'response_format' ? (isPlain ? `${field}.schema` : `${field}.json_schema.schema`) : field;
  return { format: field, 'format.schema': ofSchema };
}
