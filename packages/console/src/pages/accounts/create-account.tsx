import { useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import { queryClient } from '../../api/query.ts';
import type { Account } from '../../api/types.ts';
import { toast } from '../../components/feedback.tsx';
import { TextField } from '../../components/fields.tsx';
import { errorAt, Form, useForm } from '../../components/form.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { texts } from '../../texts/en/texts.ts';
import { ACCOUNT_FIELDS, AccountFields, draftToWire, emptyDraft } from './account-fields.tsx';

export function CreateAccount({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('');
  const [draft, setDraft] = useState(emptyDraft);
  const { accounts } = texts;
  const form = useForm(async () => {
    await call<Account>('/v1/admin/accounts', { method: 'POST', body: { name: name.trim(), ...draftToWire(draft) } });
    await queryClient.invalidateQueries({ queryKey: ['accounts'] });
    toast(accounts.created(name.trim()));
    onClose();
  });
  return (
    <Sheet title={accounts.sheetTitle} onClose={onClose}>
      <Form
        state={form}
        action={accounts.create}
        ready={name.trim() !== ''}
        fields={['name', ...ACCOUNT_FIELDS]}
        onCancel={onClose}
      >
        <TextField
          label={accounts.name}
          hint={accounts.nameHint}
          required
          maxLength={64}
          error={errorAt(form.error, 'name')}
          value={name}
          onValue={setName}
        />
        <AccountFields draft={draft} onChange={setDraft} error={form.error} />
      </Form>
    </Sheet>
  );
}
