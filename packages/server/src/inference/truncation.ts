import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { truncateInputsOf } from '@baobab/core/domain/principal.ts';
import type { Truncation } from '@baobab/core/engine/engine.ts';
import type { InferenceCall } from './call.ts';

/** What a request asks for. Undefined: what its key, account or model says. */
export type AskedTruncation = Truncation | 'none' | undefined;

export function truncationFor(
  { principal }: InferenceCall,
  entry: ModelEntry,
  asked: AskedTruncation,
): Truncation | undefined {
  const chosen = asked ?? truncateInputsOf(principal, entry);
  if (chosen === 'none') return undefined;
  return typeof chosen === 'string' ? { side: chosen } : chosen;
}
