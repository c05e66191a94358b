import type { ApiFailure } from '../../api/client.ts';
import { useSession } from '../../api/session.ts';
import type { Account, Key, Session } from '../../api/types.ts';
import { optionsOf, Segments } from '../../components/choices.tsx';
import { TextField } from '../../components/fields.tsx';
import { errorAt } from '../../components/form.tsx';
import { full, money } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';

/** Numbers as people type them; empty means that others hold: those of the account, or the defaults. */
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
  dialect: Key['dialect'];
}

export const keyLimitsOf = (key: Key): KeyLimits => ({
  ...limitsOf(key),
  priority: key.priority,
  dialect: key.dialect,
});

export const keyLimitsToWire = (limits: KeyLimits) => ({
  ...limitsToWire(limits),
  priority: limits.priority,
  dialect: limits.dialect,
});

/** Their names in the API. */
export const LIMIT_FIELDS = ['rpm', 'tpm', 'concurrency', 'monthly_budget_usd'] as const;

export interface LimitFieldsProps<L extends Limits> {
  limits: L;
  onChange: (limits: L) => void;
  error?: ApiFailure | undefined;
  /** Of a key: its account, whose limits hold too. */
  account?: Account | undefined;
  /** The limits of an account itself: totals over its keys. */
  ofAccount?: boolean;
}

/** The defaults of kinds of models, those with the same together: "600 (chat, transcription), 1,200 (embeddings, rerank)". */
function defaultsText(limits: Session['default_limits'], field: 'rpm' | 'tpm'): string {
  const kinds = new Map<number, string[]>();
  for (const modality of ['chat', 'audio', 'embedding', 'rerank'] as const) {
    const value = limits[modality][field];
    kinds.set(value, [...(kinds.get(value) ?? []), texts.modalities[modality].toLowerCase()]);
  }
  return [...kinds].map(([value, names]) => `${full(value)} (${names.join(', ')})`).join(', ');
}

/** What holds while a field is empty. */
function useEmptyHint(account: Account | undefined, isTotal: boolean) {
  const { default_limits: defaults } = useSession();
  return (wireName: (typeof LIMIT_FIELDS)[number]): string => {
    const ofAccount = account?.[wireName] ?? null;
    if (ofAccount !== null) {
      const text = wireName === 'monthly_budget_usd' ? money(ofAccount) : full(ofAccount);
      return texts.keys.emptyOfAccount(text);
    }
    if (wireName === 'rpm' || wireName === 'tpm') {
      const values = defaultsText(defaults, wireName);
      return isTotal ? texts.keys.emptyTotal(values) : texts.keys.emptyDefault(values);
    }
    const concurrency = wireName === 'concurrency' && !isTotal ? defaults.concurrency : null;
    return concurrency === null ? texts.keys.emptyNone : texts.keys.emptyDefault(full(concurrency));
  };
}

export function LimitFields<L extends Limits>(props: LimitFieldsProps<L>) {
  const { limits, onChange, error, account, ofAccount = false } = props;
  const emptyHint = useEmptyHint(account, ofAccount);
  const field = (name: keyof Limits, label: string, wireName: (typeof LIMIT_FIELDS)[number], step: string) => (
    <TextField
      label={label}
      type="number"
      min={step === '1' ? 1 : 0}
      step={step}
      hint={emptyHint(wireName)}
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

export const KEY_LIMIT_FIELDS = [...LIMIT_FIELDS, 'priority', 'dialect'] as const;

const DIALECTS = ['specification', 'openai'] as const;

/** Of a key or an account. */
export function DialectField({ value, onValue }: { value: Key['dialect']; onValue: (value: Key['dialect']) => void }) {
  return (
    <div class="field">
      <span class="field-label">{texts.keys.dialect}</span>
      <Segments
        label={texts.keys.dialect}
        options={optionsOf(texts.keys.dialects)}
        value={value ?? 'inherited'}
        onValue={(chosen) => onValue(DIALECTS.find((each) => each === chosen) ?? null)}
      />
      <span class="field-hint">{texts.keys.dialectHint}</span>
    </div>
  );
}

export function KeyLimitFields(props: LimitFieldsProps<KeyLimits>) {
  const { limits, onChange, error } = props;
  const problem = errorAt(error, 'priority');
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
        <span class={problem === undefined ? 'field-hint' : 'field-error'}>{problem ?? texts.keys.priorityHint}</span>
      </div>
      <DialectField value={limits.dialect} onValue={(dialect) => onChange({ ...limits, dialect })} />
      <LimitFields {...props} />
    </>
  );
}
