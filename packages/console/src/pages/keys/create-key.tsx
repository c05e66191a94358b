import { isOperator } from '@baobab/core/domain/operations.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import { keysPath, useAccount, useAccounts } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import { useAccountFilter, useSession } from '../../api/session.ts';
import type { NewKey } from '../../api/types.ts';
import { optionsOf, Segments } from '../../components/choices.tsx';
import { TextArea, TextField } from '../../components/fields.tsx';
import { errorAt, Form, useForm } from '../../components/form.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { useSettled } from '../../components/settled.ts';
import { texts } from '../../texts/en/texts.ts';
import { labelOf } from '../../texts/label-of.ts';
import { CHOICES, READ_SCOPES } from './key-parts.tsx';
import { emptyLimits, KEY_LIMIT_FIELDS, KeyLimitFields, type KeyLimits, limitsToWire } from './limit-fields.tsx';
import { useUnmatchedModels } from './unmatched-models.ts';

type Access = 'all' | 'restricted' | 'read';

const lines = (text: string, separator: RegExp) =>
  text
    .split(separator)
    .map((each) => each.trim())
    .filter(Boolean);

export interface CreateKeyProps {
  onClose: () => void;
  onCreated: (key: NewKey) => void;
}

export function CreateKey({ onClose, onCreated }: CreateKeyProps) {
  const session = useSession();
  const admin = isOperator(session);
  const filter = useAccountFilter();
  const shown = useAccount(filter);
  const [typed, setAccount] = useState<string>();
  const account = typed ?? shown?.name ?? session.account.name;
  const suggested = useAccounts(useSettled(typed ?? ''));
  const [name, setName] = useState('');
  const [access, setAccess] = useState<Access>('all');
  const [scopes, setScopes] = useState<string[]>(['chat', 'models']);
  const [models, setModels] = useState('');
  const [regions, setRegions] = useState('');
  const [limits, setLimits] = useState<KeyLimits>({ ...emptyLimits, priority: 'interactive' });
  const [expiry, setExpiry] = useState('90');
  const patterns = lines(models, /\n/);
  const unmatched = useUnmatchedModels(patterns);
  const form = useForm(async () => {
    const body = {
      ...(admin ? { account: account.trim() } : {}),
      name: name.trim(),
      ...(access === 'all' ? {} : { scopes: access === 'read' ? READ_SCOPES : scopes }),
      allowed_models: patterns,
      allowed_regions: lines(regions, /,/),
      ...limitsToWire(limits),
      // By default it is that of the key of the session.
      ...(limits.priority === 'low' && { priority: limits.priority }),
      expires_at: expiry === 'never' ? null : new Date(Date.now() + Number(expiry) * DAY_MS).toISOString(),
    };
    const created = await call<NewKey>(keysPath(admin), { method: 'POST', body });
    void queryClient.invalidateQueries({ queryKey: ['keys'] });
    onCreated(created);
  });
  const errorOf = (field: string) => errorAt(form.error, field);
  const accessChoice = (value: Access, label: string, hint: string) => (
    <label class="choice">
      <input type="radio" name="access" checked={access === value} onChange={() => setAccess(value)} />
      <span>
        <span class="strong">{label}</span>
        <span class="small muted">{hint}</span>
      </span>
    </label>
  );
  const toggle = (scope: string) =>
    setScopes((before) => (before.includes(scope) ? before.filter((each) => each !== scope) : [...before, scope]));

  return (
    <Sheet title={texts.keys.sheetTitle} onClose={onClose}>
      <Form
        state={form}
        action={texts.keys.create}
        ready={name.trim() !== ''}
        fields={['name', 'account', 'allowed_models', 'allowed_regions', ...KEY_LIMIT_FIELDS]}
        onCancel={onClose}
      >
        <TextField
          label={texts.keys.name}
          hint={texts.keys.nameHint}
          error={errorOf('name')}
          value={name}
          onValue={setName}
          required
          maxLength={100}
        />
        {admin && (
          <>
            <TextField
              label={texts.keys.account}
              hint={texts.keys.accountHint}
              error={errorOf('account')}
              value={account}
              onValue={setAccount}
              required
              list="key-accounts"
            />
            <datalist id="key-accounts">
              {suggested.data?.data
                .filter(({ status }) => status === 'active')
                .map(({ id, name: each }) => (
                  <option key={id} value={each} />
                ))}
            </datalist>
          </>
        )}
        <fieldset class="choices">
          <legend class="field-label">{texts.keys.access}</legend>
          {accessChoice('all', texts.keys.accessAll, texts.keys.accessAllHint)}
          {accessChoice('restricted', texts.keys.accessRestricted, texts.keys.accessRestrictedHint)}
          {access === 'restricted' && (
            <div class="checks">
              {[...CHOICES, ...(admin ? ['admin'] : [])].map((scope) => (
                <label key={scope} class="check">
                  <input type="checkbox" checked={scopes.includes(scope)} onChange={() => toggle(scope)} />
                  {labelOf(texts.keys.scopeNames, scope)}
                </label>
              ))}
            </div>
          )}
          {accessChoice('read', texts.keys.accessRead, texts.keys.accessReadHint)}
        </fieldset>
        <div class="field">
          <span class="field-label">{texts.keys.expiry}</span>
          <Segments
            label={texts.keys.expiry}
            options={optionsOf(texts.keys.expiries)}
            value={expiry}
            onValue={setExpiry}
          />
        </div>
        <TextArea
          label={texts.keys.models}
          hint={texts.keys.modelsHint}
          warning={unmatched.length === 0 ? undefined : texts.keys.unmatchedModels(unmatched)}
          error={errorOf('allowed_models')}
          value={models}
          rows={2}
          mono
          onValue={setModels}
        />
        <TextField
          label={texts.keys.regions}
          hint={texts.keys.regionsHint}
          error={errorOf('allowed_regions')}
          value={regions}
          onValue={setRegions}
        />
        <KeyLimitFields limits={limits} onChange={setLimits} error={form.error} />
      </Form>
    </Sheet>
  );
}
