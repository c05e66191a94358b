import { MODALITIES } from '@baobab/core/domain/model.ts';
import type { ApiFailure } from '../../api/client.ts';
import { useOwnKey } from '../../api/queries.ts';
import { useSession } from '../../api/session.ts';
import type { Account, AppliedLimits, Key } from '../../api/types.ts';
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
  truncate: Key['truncate_inputs'];
}

export const keyLimitsOf = (key: Key): KeyLimits => ({
  ...limitsOf(key),
  priority: key.priority,
  dialect: key.dialect,
  truncate: key.truncate_inputs,
});

export const keyLimitsToWire = (limits: KeyLimits) => ({
  ...limitsToWire(limits),
  priority: limits.priority,
  dialect: limits.dialect,
  truncate_inputs: limits.truncate,
});

/** Their names in the API. */
export const LIMIT_FIELDS = ['rpm', 'tpm', 'concurrency', 'monthly_budget_usd'] as const;

export interface LimitFieldsProps<L extends Limits> {
  limits: L;
  onChange: (limits: L) => void;
  error?: ApiFailure | undefined;
  /** Of a key: its account, whose limits hold too. Undefined: that of the session. */
  account?: Account | undefined;
  /** The limits of an account itself: totals over its keys. */
  ofAccount?: boolean;
}

/** The rates of kinds of models, those with the same together: "600 (chat, transcription), 1,200 (embeddings, rerank)". */
function ratesText(limits: AppliedLimits, field: 'rpm' | 'tpm'): string {
  const names = new Map<number, string[]>();
  const add = (value: number | null, name: string) =>
    value !== null && names.set(value, [...(names.get(value) ?? []), name]);
  for (const modality of MODALITIES) add(limits[modality][field], texts.modalities[modality].toLowerCase());
  for (const { model, [field]: value, [`${field}_from` as const]: from } of limits.models) {
    if (from === 'model') add(value, model);
  }
  return [...names].map(([value, of]) => `${full(value)} (${of.join(', ')})`).join(', ');
}

/** What holds while a field is empty. */
function emptyHint(field: (typeof LIMIT_FIELDS)[number], limits: AppliedLimits, isTotal: boolean): string {
  const { emptyOfAccount, emptyTotal, emptyDefault, emptyNone } = texts.keys;
  if (field === 'rpm' || field === 'tpm') {
    const { [field]: value, [`${field}_from` as const]: from } = limits.chat;
    if (from === 'account' && value !== null) return emptyOfAccount(full(value));
    return isTotal ? emptyTotal(ratesText(limits, field)) : emptyDefault(ratesText(limits, field));
  }
  if (isTotal) return emptyNone;
  if (field === 'monthly_budget_usd') {
    const { monthly_budget_usd: budget } = limits;
    return budget === null ? emptyNone : emptyOfAccount(money(budget));
  }
  const { concurrency, concurrency_from: from } = limits;
  if (concurrency === null) return emptyNone;
  return from === 'account' ? emptyOfAccount(full(concurrency)) : emptyDefault(full(concurrency));
}

export function LimitFields<L extends Limits>(props: LimitFieldsProps<L>) {
  const { limits, onChange, error, account, ofAccount = false } = props;
  // A key that may make others has no limits of its own, so that its limits are those of a new key.
  const own = useOwnKey().data;
  const { default_limits: defaults } = useSession();
  const held = ofAccount ? defaults : (account?.limits ?? own?.limits ?? defaults);
  const field = (name: keyof Limits, label: string, wireName: (typeof LIMIT_FIELDS)[number], step: string) => (
    <TextField
      label={label}
      type="number"
      min={step === '1' ? 1 : 0}
      step={step}
      hint={emptyHint(wireName, held, ofAccount)}
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

export const KEY_LIMIT_FIELDS = [...LIMIT_FIELDS, 'priority', 'dialect', 'truncate_inputs'] as const;

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

const SIDES = ['none', 'start', 'end'] as const;

/** Of a key or an account. */
export function TruncateField(props: {
  value: Key['truncate_inputs'];
  onValue: (value: Key['truncate_inputs']) => void;
}) {
  return (
    <div class="field">
      <span class="field-label">{texts.keys.truncate}</span>
      <Segments
        label={texts.keys.truncate}
        options={optionsOf(texts.keys.truncates)}
        value={props.value ?? 'inherited'}
        onValue={(chosen) => props.onValue(SIDES.find((each) => each === chosen) ?? null)}
      />
      <span class="field-hint">{texts.keys.truncateHint}</span>
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
      <TruncateField value={limits.truncate} onValue={(truncate) => onChange({ ...limits, truncate })} />
      <LimitFields {...props} />
    </>
  );
}
