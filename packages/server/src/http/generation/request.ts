import type { SamplingOptions, ToolChoice } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FieldNames } from '../answer/field-names.ts';
import { isLarge, largeBytes } from '../body/large-parts.ts';
import { refuseUnkept, type UnkeptFields } from '../body/unkept.ts';
import { type ConstraintBody, formatNames, formatOf } from './constraint.ts';
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
    topK: body.top_k && body.top_k > 0 ? body.top_k : undefined,
    minP: body.min_p ?? undefined,
    repetitionPenalty: body.repetition_penalty ?? undefined,
    minTokens: minTokensOf(body),
    ignoresEnd: body.ignore_eos || undefined,
  };
}

function minTokensOf(body: SamplingBody): number | undefined {
  const least = body.min_tokens || undefined;
  const most = body.max_completion_tokens ?? body.max_tokens ?? Number.POSITIVE_INFINITY;
  if (least === undefined || least <= most) return least;
  throw errors.invalidParameter(
    'min_tokens',
    `'min_tokens' is ${least}, more than the longest answer, ${most} tokens.`,
  );
}

/** What chat and completions share besides. */
export function requestFieldsOf(body: SamplingBody & ConstraintBody) {
  refuseUnsupported(body);
  return {
    ...samplingOf(body),
    format: formatOf(body),
    withTokenIds: body.return_token_ids || undefined,
    countsEach: (body.stream && body.stream_options?.continuous_usage_stats) || undefined,
  };
}

export const UNKEPT_IN_GENERATION: UnkeptFields = {
  allowed_token_ids: [],
  bad_words: [],
  chat_template: [],
  custom_logit_processor: [],
  documents: [],
  dry_multiplier: [0],
  dynatemp_range: [0],
  ebnf: { instead: 'guided_grammar' },
  functions: { instead: 'tools' },
  include_stop_str_in_output: [false],
  logits_processors: [],
  mirostat: [0],
  prompt_logprobs: [],
  regex: { instead: 'guided_regex' },
  stop_regex: [],
  stop_token_ids: [],
  truncate_prompt_tokens: [],
  truncation_side: [],
  typical_p: [1],
  use_beam_search: [false],
  web_search_options: [],
  xtc_probability: [0],
};

function refuseUnsupported(body: SamplingBody): void {
  refuseUnkept(body, UNKEPT_IN_GENERATION);
  for (const name of Object.keys(body.chat_template_kwargs ?? {})) {
    if (name === 'enable_thinking' || name === 'thinking') continue;
    const field = `chat_template_kwargs.${name.slice(0, SHOWN_LENGTH)}`;
    throw errors.unsupportedParameter(field, `'${field}' is not supported: leave it out.`);
  }
}

/** Whether the switches of a chat template turn thinking off. */
export const turnsThinkingOff = ({ chat_template_kwargs: switches }: SamplingBody): boolean =>
  switches?.enable_thinking === false || switches?.thinking === false;

/** Fields that are sent to an engine in one piece, and a limit far above what real requests have. */
const WHOLE_FIELDS = [
  'tools',
  'tool_choice',
  'response_format',
  'structured_outputs',
  'guided_json',
  'guided_choice',
  'guided_grammar',
  'json_schema',
  'grammar',
  'text',
  'stop',
  'logit_bias',
] as const;
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
  answerStart: 'continue_final_message',
  countsEach: 'stream_options.continuous_usage_stats',
  echoes: 'echo',
  ignoresEnd: 'ignore_eos',
  minP: 'min_p',
  minTokens: 'min_tokens',
  repetitionPenalty: 'repetition_penalty',
  topK: 'top_k',
  withTokenIds: 'return_token_ids',
  'tools.*.parameters': 'tools.*.function.parameters',
};

/** Clients know the limit and the format of an answer by several names: errors use those that were sent. */
export function generationFieldNames(body: unknown): FieldNames {
  if (typeof body !== 'object' || body === null) return GENERATION_FIELDS;
  const isNewer = 'max_completion_tokens' in body && body.max_completion_tokens;
  const newer = isNewer ? { maxTokens: 'max_completion_tokens' } : {};
  return { ...GENERATION_FIELDS, ...formatNames(body), ...newer };
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
