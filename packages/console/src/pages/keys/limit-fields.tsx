import type { ApiFailure } from '../../api/client.ts';
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

/** Their names in the API. */
export const LIMIT_FIELDS = ['rpm', 'tpm', 'concurrency', 'monthly_budget_usd'] as const;

export interface LimitFieldsProps {
  limits: Limits;
  onChange: (limits: Limits) => void;
  error?: ApiFailure | undefined;
}

export function LimitFields({ limits, onChange, error }: LimitFieldsProps) {
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
