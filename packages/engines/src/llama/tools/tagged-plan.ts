import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { createBudget } from '../grammar/budget.ts';
import { createGrammarRules, GrammarTooLarge } from '../grammar/grammar-rules.ts';
import { jsonRules } from '../grammar/json-grammar.ts';
import { createConverter } from '../grammar/schema-converter.ts';
import { assertionKeys, isObject } from '../grammar/schema-document.ts';
import { NAME_CHARACTERS } from './call-syntax.ts';
import { type ValueKind, valueForm } from './tagged-values.ts';

/** The arguments of one tool between tags, before it is known what the tags of the model look like. */
export interface TaggedArgumentsPlan {
  /** GBNF rules by name that the members refer to. */
  rules: readonly (readonly [string, string])[];
  members: readonly TaggedMember[];
}

export interface TaggedMember {
  key: string;
  required: boolean;
  kind: ValueKind;
  /** GBNF expressions of its values. `ANY_TEXT`: any text up to the end tag. */
  alternatives: readonly string[];
  /** Listed values that contain a `<`, and might contain the end tag. */
  textsWithTags: readonly string[];
}

const OBJECT_KEYWORDS = ['type', 'properties', 'required', 'additionalProperties'];

/**
 * What tags can hold of a schema that has a grammar in JSON: an object with declared properties, each of them either text or JSON.
 * Undefined: not this one.
 */
export function planTaggedArguments(schema: unknown, location: FieldPath): TaggedArgumentsPlan | undefined {
  try {
    return planObject(schema, location);
  } catch (error) {
    if (error instanceof ApiError || error instanceof GrammarTooLarge) return undefined;
    throw error;
  }
}

function planObject(schema: unknown, location: FieldPath): TaggedArgumentsPlan | undefined {
  const rules = createGrammarRules();
  jsonRules(rules);
  const conversion = createConverter({ rules, budget: createBudget(), document: schema });
  const whole = conversion.expand(schema, location);
  if (!isObject(whole) || !isObject(whole.properties)) return undefined;
  const { properties } = whole;
  const required = new Set(Array.isArray(whole.required) ? whole.required.map(String) : []);
  if (!assertionKeys(whole).every((key) => OBJECT_KEYWORDS.includes(key))) return undefined;
  if (!required.values().every((key) => Object.hasOwn(properties, key))) return undefined;

  const members: TaggedMember[] = [];
  for (const [key, property] of Object.entries(properties)) {
    const site = { location: [...location, 'properties', key], hint: `value-${key}`, depth: 1, open: [] };
    const form = NAME_CHARACTERS.test(key) ? valueForm(property, conversion, site) : undefined;
    if (!form) return undefined;
    const alternatives = form.kind === 'json' ? [conversion.convert(property, site)] : form.alternatives;
    members.push({
      key,
      required: required.has(key),
      kind: form.kind,
      alternatives,
      textsWithTags: form.kind === 'json' ? [] : form.textsWithTags,
    });
  }
  return { rules: rules.entries(), members };
}
