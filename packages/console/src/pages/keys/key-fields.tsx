import { isOperator } from '@baobab/core/domain/operations.ts';
import { DEFAULT_SCOPES } from '@baobab/core/domain/scopes.ts';
import type { ComponentChildren } from 'preact';
import type { ApiFailure } from '../../api/client.ts';
import { useSession } from '../../api/session.ts';
import type { Account, Key } from '../../api/types.ts';
import { TextArea, TextField } from '../../components/fields.tsx';
import { errorAt } from '../../components/form.tsx';
import { texts } from '../../texts/en/texts.ts';
import { labelOf } from '../../texts/label-of.ts';
import { CHOICES, READ_SCOPES } from './key-parts.tsx';
import {
  emptyLimits,
  KEY_LIMIT_FIELDS,
  KeyLimitFields,
  type KeyLimits,
  keyLimitsOf,
  keyLimitsToWire,
} from './limit-fields.tsx';
import { useUnmatchedModels } from './unmatched-models.ts';

type Access = 'standard' | 'restricted' | 'read';

/** What can be chosen for a key, and changed later. */
export interface KeyDraft extends KeyLimits {
  name: string;
  access: Access;
  /** Where access is restricted. */
  scopes: readonly string[];
  /** A pattern in each line. */
  models: string;
  regions: string;
}

export const emptyDraft: KeyDraft = {
  ...emptyLimits,
  priority: 'interactive',
  dialect: null,
  truncate: null,
  name: '',
  access: 'standard',
  scopes: ['chat', 'models'],
  models: '',
  regions: '',
};

const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((scope) => other.includes(scope));

export function draftOf(key: Key): KeyDraft {
  const access = isSame(key.scopes, DEFAULT_SCOPES)
    ? 'standard'
    : isSame(key.scopes, READ_SCOPES)
      ? 'read'
      : 'restricted';
  return {
    ...keyLimitsOf(key),
    name: key.name,
    access,
    scopes: key.scopes,
    models: key.allowed_models.join('\n'),
    regions: key.allowed_regions.join(', '),
  };
}

const listOf = (text: string, separator: RegExp) =>
  text
    .split(separator)
    .map((each) => each.trim())
    .filter(Boolean);

export const draftToWire = (draft: KeyDraft) => ({
  ...keyLimitsToWire(draft),
  name: draft.name.trim(),
  scopes: { standard: DEFAULT_SCOPES, read: READ_SCOPES, restricted: draft.scopes }[draft.access],
  allowed_models: listOf(draft.models, /\n/),
  allowed_regions: listOf(draft.regions, /,/),
});

/** Fields of the API that show their errors. */
export const KEY_DRAFT_FIELDS = ['name', 'scopes', 'allowed_models', 'allowed_regions', ...KEY_LIMIT_FIELDS];

export interface KeyFieldsProps {
  draft: KeyDraft;
  onChange: (draft: KeyDraft) => void;
  error?: ApiFailure | undefined;
  /** Whose limits hold too, where it is known. */
  account: Account | undefined;
  /** Between the name and the access. */
  children?: ComponentChildren;
}

export function KeyFields({ draft, onChange, error, account, children }: KeyFieldsProps) {
  const admin = isOperator(useSession());
  const unmatched = useUnmatchedModels(listOf(draft.models, /\n/));
  const change = (changes: Partial<KeyDraft>) => onChange({ ...draft, ...changes });
  const choice = (value: Access, label: string, hint: string) => (
    <label class="choice">
      <input type="radio" name="access" checked={draft.access === value} onChange={() => change({ access: value })} />
      <span>
        <span class="strong">{label}</span>
        <span class="small muted">{hint}</span>
      </span>
    </label>
  );
  const toggle = (scope: string) =>
    change({
      scopes: draft.scopes.includes(scope) ? draft.scopes.filter((each) => each !== scope) : [...draft.scopes, scope],
    });
  return (
    <>
      <TextField
        label={texts.keys.name}
        hint={texts.keys.nameHint}
        error={errorAt(error, 'name')}
        value={draft.name}
        onValue={(name) => change({ name })}
        required
        maxLength={100}
      />
      {children}
      <fieldset class="choices">
        <legend class="field-label">{texts.keys.access}</legend>
        {choice('standard', texts.keys.standard, texts.keys.standardHint)}
        {choice('restricted', texts.keys.accessRestricted, texts.keys.accessRestrictedHint)}
        {draft.access === 'restricted' && (
          <div class="checks">
            {[...CHOICES, ...(admin ? ['admin'] : [])].map((scope) => (
              <label key={scope} class="check">
                <input type="checkbox" checked={draft.scopes.includes(scope)} onChange={() => toggle(scope)} />
                {labelOf(texts.keys.scopeNames, scope)}
              </label>
            ))}
          </div>
        )}
        {choice('read', texts.keys.accessRead, texts.keys.accessReadHint)}
        {errorAt(error, 'scopes') && <span class="field-error">{errorAt(error, 'scopes')}</span>}
      </fieldset>
      <TextArea
        label={texts.keys.models}
        hint={texts.keys.modelsHint}
        warning={unmatched.length === 0 ? undefined : texts.keys.unmatchedModels(unmatched)}
        error={errorAt(error, 'allowed_models')}
        value={draft.models}
        rows={2}
        mono
        onValue={(models) => change({ models })}
      />
      <TextField
        label={texts.keys.regions}
        hint={texts.keys.regionsHint}
        error={errorAt(error, 'allowed_regions')}
        value={draft.regions}
        onValue={(regions) => change({ regions })}
      />
      <KeyLimitFields limits={draft} onChange={change} error={error} account={account} />
    </>
  );
}
