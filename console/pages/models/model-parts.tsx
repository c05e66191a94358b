import type { Model } from '../../api/types.ts';
import { Badge } from '../../components/feedback.tsx';
import { money } from '../../format/numbers.ts';
import { texts } from '../../texts/en.ts';

const TONES = { ready: 'good', cold: 'plain', unavailable: 'bad' } as const;

export function ModelStatus({ model: { status, status_reason: reason } }: { model: Model }) {
  return (
    <span title={reason ?? texts.models.statusHints[status]}>
      <Badge tone={TONES[status]}>{texts.models.statuses[status]}</Badge>
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
