import { useState } from 'preact/hooks';
import { ApiFailure, call } from '../../api/client.ts';
import type { Account } from '../../api/types.ts';
import { queryClient } from '../../app/query.ts';
import { Button, TextField } from '../../components/controls.tsx';
import { toast } from '../../components/feedback.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { texts } from '../../texts/en.ts';
import { AccountFields, draftToWire, emptyDraft } from './account-fields.tsx';

export function CreateAccount({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('');
  const [draft, setDraft] = useState(emptyDraft);
  const [error, setError] = useState<ApiFailure>();
  const [busy, setBusy] = useState(false);
  const { accounts } = texts;
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await call<Account>('/v1/admin/accounts', { method: 'POST', body: { name: name.trim(), ...draftToWire(draft) } });
      await queryClient.invalidateQueries({ queryKey: ['accounts'] });
      toast(accounts.created(name.trim()));
      onClose();
    } catch (failure) {
      setError(failure instanceof ApiFailure ? failure : new ApiFailure(0, String(failure)));
      setBusy(false);
    }
  };
  return (
    <Sheet title={accounts.sheetTitle} onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <TextField
          label={accounts.name}
          hint={accounts.nameHint}
          required
          maxLength={64}
          error={error?.param === 'name' ? error.message : undefined}
          value={name}
          onValue={setName}
        />
        <AccountFields draft={draft} onChange={setDraft} error={error} />
        {error && (
          <p class="notice notice-bad" role="alert">
            {error.message}
          </p>
        )}
        <div class="row form-end">
          <Button onClick={onClose}>{texts.common.cancel}</Button>
          <Button type="submit" tone="primary" disabled={busy || name.trim() === ''}>
            {accounts.create}
          </Button>
        </div>
      </form>
    </Sheet>
  );
}
