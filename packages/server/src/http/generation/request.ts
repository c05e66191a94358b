import type { SamplingOptions, ToolChoice } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FieldNames } from '../answer/field-names.ts';
import { isLarge, largeBytes } from '../body/large-parts.ts';
import type { SamplingBody } from './schema.ts';

const SHOWN_LENGTH = 64;

function biasOf(bias: Readonly<Record<string, number>>): ReadonlyMap<number, number> {
  const wrong = Object.keys(bias).find((id) => !/^\d{1,9}$/.test(id));
  if (wrong !== undefined) {
    const param = `logit_bias.${wrong.slice(0, SHOWN_LENGTH)}`;
    throw errors.invalidParameter(
      param,
      `'${param}' is not a token id. The keys of 'logit_bias' are whole numbers from 0.`,
    );
  }
  return new Map(Object.entries(bias).map(([id, value]) => [Number(id), value]));
}

export function samplingOf(body: SamplingBody): SamplingOptions {
  if (body.stream_options && !body.stream) {
    throw errors.invalidParameter('stream_options', "'stream_options' is only accepted when 'stream' is true.");
  }
  return {
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? undefined,
    temperature: body.temperature ?? undefined,
    topP: body.top_p ?? undefined,
    seed: body.seed ?? undefined,
    stop: typeof body.stop === 'string' ? [body.stop] : (body.stop ?? undefined),
    frequencyPenalty: body.frequency_penalty ?? undefined,
    presencePenalty: body.presence_penalty ?? undefined,
    logitBias: body.logit_bias ? biasOf(body.logit_bias) : undefined,
  };
}

/** Fields that are sent to an engine in one piece, and a limit far above what real requests have. */
const WHOLE_FIELDS = ['tools', 'tool_choice', 'response_format', 'text', 'stop', 'logit_bias'] as const;
const MAX_FIELD_LENGTH = 1_048_576;

export function refuseOversized(body: Partial<Record<(typeof WHOLE_FIELDS)[number], unknown>>): void {
  if (!isLarge(body)) return;
  for (const field of WHOLE_FIELDS) {
    const value = body[field];
    const length = typeof value === 'string' ? value.length : largeBytes(value);
    if (length <= MAX_FIELD_LENGTH) continue;
    throw errors.invalidParameter(field, `'${field}' is longer than the ${MAX_FIELD_LENGTH} bytes that are accepted.`);
  }
}

const GENERATION_FIELDS: FieldNames = {
  maxTokens: 'max_tokens',
  logitBias: 'logit_bias',
  toolChoice: 'tool_choice',
  reasoningEffort: 'reasoning_effort',
  format: 'response_format',
  'format.schema': 'response_format.json_schema.schema',
  'tools.*.parameters': 'tools.*.function.parameters',
};

interface SentNames {
  max_completion_tokens?: unknown;
  response_format?: { type?: unknown } | null;
}

/** Some fields have two names: errors use the one that was sent. */
export function generationFieldNames(body: unknown): FieldNames {
  const { max_completion_tokens: limit, response_format: format } = (body ?? {}) as SentNames;
  return {
    ...GENERATION_FIELDS,
    ...(limit ? { maxTokens: 'max_completion_tokens' } : undefined),
    ...(format?.type === 'json_object' && { 'format.schema': 'response_format.schema' }),
  };
}

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
