import { isOperator } from '@baobab/core/domain/operations.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import { keysPath, useAccount, useAccounts } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import { useAccountFilter, useSession } from '../../api/session.ts';
import type { NewKey } from '../../api/types.ts';
import { optionsOf, Segments } from '../../components/choices.tsx';
import { TextField } from '../../components/fields.tsx';
import { errorAt, Form, useForm } from '../../components/form.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { useSettled } from '../../components/settled.ts';
import { texts } from '../../texts/en/texts.ts';
import { draftToWire, emptyDraft, KEY_DRAFT_FIELDS, KeyFields } from './key-fields.tsx';

export interface CreateKeyProps {
  onClose: () => void;
  onCreated: (key: NewKey) => void;
}

export function CreateKey({ onClose, onCreated }: CreateKeyProps) {
  const session = useSession();
  const admin = isOperator(session);
  const shown = useAccount(useAccountFilter());
  const [typed, setAccount] = useState<string>();
  const account = typed ?? shown?.name ?? session.account.name;
  const suggested = useAccounts(useSettled(account)).data?.data;
  const [draft, setDraft] = useState(emptyDraft);
  const [expiry, setExpiry] = useState('never');
  const { scopes, ...rights } = draftToWire(draft);
  const wanted = {
    ...(admin ? { account: account.trim() } : {}),
    ...rights,
    // By default they are those of the key of the session.
    ...(draft.access !== 'standard' && { scopes }),
  };
  const form = useForm(wanted, async (chosen) => {
    const expires = expiry === 'never' ? null : new Date(Date.now() + Number(expiry) * DAY_MS).toISOString();
    const body = { ...chosen, expires_at: expires };
    const created = await call<NewKey>(keysPath(admin), { method: 'POST', body });
    void queryClient.invalidateQueries({ queryKey: ['keys'] });
    onCreated(created);
  });
  return (
    <Sheet title={texts.keys.sheetTitle} onClose={onClose}>
      <Form
        state={form}
        action={texts.keys.create}
        ready={draft.name.trim() !== ''}
        fields={['account', ...KEY_DRAFT_FIELDS]}
        onCancel={onClose}
      >
        <KeyFields
          draft={draft}
          onChange={setDraft}
          error={form.error}
          account={suggested?.find(({ name }) => name === account)}
        >
          {admin && (
            <>
              <TextField
                label={texts.keys.account}
                hint={texts.keys.accountHint}
                error={errorAt(form.error, 'account')}
                value={account}
                onValue={setAccount}
                required
                list="key-accounts"
              />
              <datalist id="key-accounts">
                {suggested
                  ?.filter(({ status }) => status === 'active')
                  .map(({ id, name }) => (
                    <option key={id} value={name} />
                  ))}
              </datalist>
            </>
          )}
          <div class="field">
            <span class="field-label">{texts.keys.expiry}</span>
            <Segments
              label={texts.keys.expiry}
              options={optionsOf(texts.keys.expiries)}
              value={expiry}
              onValue={setExpiry}
            />
          </div>
        </KeyFields>
      </Form>
    </Sheet>
  );
}
