import type { Model } from '../../api/types.ts';
import { Badge } from '../../components/feedback.tsx';
import { money } from '../../format/numbers.ts';
import { texts } from '../../texts/en.ts';

/** In the order in which a list shows them. */
export const MODEL_STATUSES = ['ready', 'cold', 'unavailable'];

export interface ModelStatusProps {
  model: Model;
  /** It should run and cannot. Most models that cannot run were never set up, which is not a failure. */
  broken?: boolean;
}

export function ModelStatus({ model: { status, status_reason: reason }, broken = false }: ModelStatusProps) {
  const text = texts.models.statuses[status];
  return (
    <span title={reason ?? texts.models.statusHints[status]}>
      {status === 'unavailable' && !broken ? (
        <span class="muted">{text}</span>
      ) : (
        <Badge tone={broken ? 'bad' : status === 'ready' ? 'good' : 'plain'}>{text}</Badge>
      )}
    </span>
  );
}

/** A cell with a price; models that do not have it show a dash. */
export function price(field: 'prompt_per_million' | 'completion_per_million' | 'cache_read_per_million') {
  return ({ pricing }: Model) => {
    const value = pricing[field];
    return value === null ? '–' : money(value);
  };
}
