import type { ApiFailure } from '../../api/client.ts';
import type { Account } from '../../api/types.ts';
import { TextField } from '../../components/fields.tsx';
import { errorAt } from '../../components/form.tsx';
import { texts } from '../../texts/en/texts.ts';
import {
  DialectField,
  emptyLimits,
  LIMIT_FIELDS,
  LimitFields,
  type Limits,
  limitsOf,
  limitsToWire,
  TruncateField,
} from '../keys/limit-fields.tsx';

export interface AccountDraft {
  limits: Limits;
  weight: string;
  retentionDays: string;
  zeroRetention: boolean;
  storePrompts: boolean;
  dialect: Account['dialect'];
  truncate: Account['truncate_inputs'];
}

export const emptyDraft: AccountDraft = {
  limits: emptyLimits,
  weight: '1',
  retentionDays: '',
  zeroRetention: false,
  storePrompts: false,
  dialect: null,
  truncate: null,
};

export const draftOf = (account: Account): AccountDraft => ({
  limits: limitsOf(account),
  weight: String(account.weight),
  retentionDays: account.file_retention_days === null ? '' : String(account.file_retention_days),
  zeroRetention: account.zero_retention,
  storePrompts: account.store_prompts,
  dialect: account.dialect,
  truncate: account.truncate_inputs,
});

export const draftToWire = (draft: AccountDraft) => ({
  ...limitsToWire(draft.limits),
  weight: draft.weight.trim() === '' ? 1 : Number(draft.weight),
  file_retention_days: draft.retentionDays.trim() === '' ? null : Number(draft.retentionDays),
  zero_retention: draft.zeroRetention,
  store_prompts: draft.storePrompts,
  dialect: draft.dialect,
  truncate_inputs: draft.truncate,
});

/** Those that show their errors, by their names in the API. */
export const ACCOUNT_FIELDS = [...LIMIT_FIELDS, 'weight', 'file_retention_days'];

export interface AccountFieldsProps {
  draft: AccountDraft;
  onChange: (draft: AccountDraft) => void;
  error?: ApiFailure | undefined;
}

export function AccountFields({ draft, onChange, error }: AccountFieldsProps) {
  const { accounts } = texts;
  return (
    <>
      <LimitFields
        ofAccount
        limits={draft.limits}
        onChange={(limits) => onChange({ ...draft, limits })}
        error={error}
      />
      <TextField
        label={accounts.weight}
        hint={accounts.weightHint}
        type="number"
        min={1}
        max={1000}
        error={errorAt(error, 'weight')}
        value={draft.weight}
        onValue={(weight) => onChange({ ...draft, weight })}
      />
      <TextField
        label={accounts.retention}
        hint={accounts.retentionHint}
        type="number"
        min={1}
        error={errorAt(error, 'file_retention_days')}
        value={draft.retentionDays}
        onValue={(retentionDays) => onChange({ ...draft, retentionDays })}
      />
      <DialectField value={draft.dialect} onValue={(dialect) => onChange({ ...draft, dialect })} />
      <TruncateField value={draft.truncate} onValue={(truncate) => onChange({ ...draft, truncate })} />
      <label class="check">
        <input
          type="checkbox"
          checked={draft.zeroRetention}
          onChange={(event) =>
            onChange({
              ...draft,
              zeroRetention: event.currentTarget.checked,
              storePrompts: draft.storePrompts && !event.currentTarget.checked,
            })
          }
        />
        <span>
          {accounts.zeroRetention}
          <span class="field-hint"> {accounts.zeroRetentionHint}</span>
        </span>
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={draft.storePrompts}
          disabled={draft.zeroRetention}
          onChange={(event) => onChange({ ...draft, storePrompts: event.currentTarget.checked })}
        />
        <span>
          {accounts.storePrompts}
          <span class="field-hint"> {accounts.storePromptsHint}</span>
        </span>
      </label>
    </>
  );
}
