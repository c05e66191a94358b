import { errors } from '@baobab/core/errors/errors.ts';
import { Type } from 'typebox';
import type { AskedTruncation } from '../../inference/truncation.ts';
import type { FieldNames } from '../answer/field-names.ts';
import { optional } from './bounded.ts';

const ZERO_IS_NONE = { documented: { not: { const: 0 } } };

/** How embeddings and rerank are asked to cut inputs: the words of vLLM, Cohere, TEI and Voyage. */
export const truncationFields = {
  truncate_prompt_tokens: optional(
    Type.Integer({ minimum: -1, ...ZERO_IS_NONE }),
    'Cut inputs that have more tokens; -1: inputs that are too long for the model',
  ),
  truncate: optional(
    Type.Union([Type.Boolean(), Type.Enum(['NONE', 'START', 'END'])]),
    'Cut this side of inputs that are too long for the model; `true` is `END`. By default they are refused, unless the key, the account or the model says otherwise',
  ),
  truncation: optional(Type.Boolean(), "Voyage's name of `truncate`"),
  truncation_direction: optional(
    Type.Enum(['Left', 'Right', 'left', 'right']),
    "TEI's name of the side that is cut: `Left` is the start",
  ),
  truncation_side: optional(Type.Enum(['left', 'right']), "vLLM's name of the side that is cut: `left` is the start"),
};

/** For errors. */
export const TRUNCATION_NAMES: FieldNames = {
  'truncation.maxTokens': 'truncate_prompt_tokens',
  maxDocumentTokens: 'max_tokens_per_doc',
};

interface TruncationBody {
  truncate_prompt_tokens?: number | null;
  truncate?: boolean | string | null;
  truncation?: boolean | null;
  truncation_direction?: string | null;
  truncation_side?: string | null;
}

export function truncationFrom(body: TruncationBody): AskedTruncation {
  const { truncate_prompt_tokens: most = null } = body;
  const asked = body.truncate ?? body.truncation ?? null;
  const isRefused = asked === false || asked === 'NONE';
  if (most === 0 || (most !== null && isRefused)) {
    throw errors.invalidParameter(
      'truncate_prompt_tokens',
      most === 0
        ? "'truncate_prompt_tokens' must be -1, for what the model reads at once, or at least 1."
        : "'truncate_prompt_tokens' asks to cut inputs, and 'truncate' not to. Send one of them.",
    );
  }
  if (isRefused) return 'none';
  if (most === null && asked === null) return undefined;
  const sides = [body.truncation_direction, body.truncation_side];
  const side = asked === 'START' || sides.some((each) => each?.toLowerCase() === 'left') ? 'start' : 'end';
  return { maxTokens: most === null || most === -1 ? undefined : most, side };
}
