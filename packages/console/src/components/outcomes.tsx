import type { RequestEntry } from '../api/types.ts';
import { texts } from '../texts/en/texts.ts';
import { Badge, type BadgeTone } from './feedback.tsx';

/** How requests end: one word, one tone and one colour in charts, tables and sheets. Names are those of reports. */
export const OUTCOMES = ['succeeded', 'cancelled', 'client_errors', 'limited', 'server_errors'] as const;
export type Outcome = (typeof OUTCOMES)[number];

const TONES: Record<Outcome, BadgeTone> = {
  succeeded: 'good',
  cancelled: 'plain',
  client_errors: 'warn',
  limited: 'info',
  server_errors: 'bad',
};

export const outcomeColor = (outcome: Outcome): string => `--outcome-${TONES[outcome]}`;

export function outcomeOf(status: number): Outcome {
  if (status < 400) return 'succeeded';
  if (status === 499) return 'cancelled';
  if (status === 429) return 'limited';
  return status >= 500 ? 'server_errors' : 'client_errors';
}

/** The status, in words where there is room. */
export function StatusBadge({ entry: { status, code }, words = false }: StatusBadgeProps) {
  const outcome = outcomeOf(status);
  const text = texts.outcomes[outcome];
  return (
    <span title={code === null ? text : `${text}: ${code}`}>
      <Badge tone={TONES[outcome]}>
        <span class="mono">{status}</span>
        {words && ` ${text}`}
      </Badge>
    </span>
  );
}

interface StatusBadgeProps {
  entry: Pick<RequestEntry, 'status' | 'code'>;
  words?: boolean;
}
