import type { ApiFailure } from '../../api/client.ts';
import type { Key } from '../../api/types.ts';
import { optionsOf, Segments } from '../../components/choices.tsx';
import { TextField } from '../../components/fields.tsx';
import { errorAt } from '../../components/form.tsx';
import { texts } from '../../texts/en/texts.ts';

/** Numbers as people type them; empty means no limit. */
export interface Limits {
  rpm: string;
  tpm: string;
  concurrency: string;
  budget: string;
}

export const emptyLimits: Limits = { rpm: '', tpm: '', concurrency: '', budget: '' };

export interface WireLimits {
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
  monthly_budget_usd: number | null;
}

const read = (text: string) => (text.trim() === '' ? null : Number(text));
const write = (value: number | null) => (value === null ? '' : String(value));

export const limitsToWire = ({ rpm, tpm, concurrency, budget }: Limits): WireLimits => ({
  rpm: read(rpm),
  tpm: read(tpm),
  concurrency: read(concurrency),
  monthly_budget_usd: read(budget),
});

export const limitsOf = (from: WireLimits): Limits => ({
  rpm: write(from.rpm),
  tpm: write(from.tpm),
  concurrency: write(from.concurrency),
  budget: write(from.monthly_budget_usd),
});

/** What can be changed of a key. */
export interface KeyLimits extends Limits {
  priority: Key['priority'];
}

export const keyLimitsOf = (key: Key): KeyLimits => ({ ...limitsOf(key), priority: key.priority });

export const keyLimitsToWire = (limits: KeyLimits) => ({ ...limitsToWire(limits), priority: limits.priority });

/** Their names in the API. */
export const LIMIT_FIELDS = ['rpm', 'tpm', 'concurrency', 'monthly_budget_usd'] as const;

export interface LimitFieldsProps<L extends Limits> {
  limits: L;
  onChange: (limits: L) => void;
  error?: ApiFailure | undefined;
}

export function LimitFields<L extends Limits>({ limits, onChange, error }: LimitFieldsProps<L>) {
  const field = (name: keyof Limits, label: string, wireName: (typeof LIMIT_FIELDS)[number], step: string) => (
    <TextField
      label={label}
      type="number"
      min={step === '1' ? 1 : 0}
      step={step}
      placeholder={texts.common.noLimit}
      error={errorAt(error, wireName)}
      value={limits[name]}
      onValue={(value) => onChange({ ...limits, [name]: value })}
    />
  );
  return (
    <fieldset class="stack-tight">
      <legend class="field-label">{texts.keys.limits}</legend>
      <div class="fields-2">
        {field('rpm', texts.keys.rpm, 'rpm', '1')}
        {field('tpm', texts.keys.tpm, 'tpm', '1')}
        {field('concurrency', texts.keys.concurrency, 'concurrency', '1')}
        {field('budget', texts.keys.budget, 'monthly_budget_usd', 'any')}
      </div>
    </fieldset>
  );
}

export const KEY_LIMIT_FIELDS = [...LIMIT_FIELDS, 'priority'] as const;

export function KeyLimitFields(props: LimitFieldsProps<KeyLimits>) {
  const { limits, onChange } = props;
  return (
    <>
      <div class="field">
        <span class="field-label">{texts.keys.priority}</span>
        <Segments
          label={texts.keys.priority}
          options={optionsOf(texts.keys.priorities)}
          value={limits.priority}
          onValue={(priority) => onChange({ ...limits, priority: priority === 'low' ? 'low' : 'interactive' })}
        />
        <span class="field-hint">{texts.keys.priorityHint}</span>
      </div>
      <LimitFields {...props} />
    </>
  );
}
