import { may } from '@baobab/core/domain/operations.ts';
import { useState } from 'preact/hooks';
import { useNow } from '../../address/range.ts';
import { changeSearch, useParameter, usePlace } from '../../address/router.ts';
import { exactTime } from '../../address/zone.ts';
import { call } from '../../api/client.ts';
import { useAccount, useAccountPages } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import { useSession } from '../../api/session.ts';
import type { Account } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { optionsOf, Segments } from '../../components/choices.tsx';
import { Empty, toast } from '../../components/feedback.tsx';
import { SearchField, TextField } from '../../components/fields.tsx';
import { errorAt, Form, useForm } from '../../components/form.tsx';
import { Listing } from '../../components/listing.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { Page } from '../../components/page.tsx';
import { useSettled } from '../../components/settled.ts';
import { compact } from '../../format/numbers.ts';
import { ago } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { useMonthlySpend } from '../spend/monthly-spend.ts';
import { SpendCell } from '../spend/spend.tsx';
import { ACCOUNT_FIELDS, AccountFields, draftToWire, emptyDraft } from './account-fields.tsx';
import { AccountSheet, AccountStatus } from './account-sheet.tsx';

export default function Accounts() {
  const { search } = usePlace();
  const [find, setFind] = useParameter('find');
  const accounts = useAccountPages(useSettled(find));
  const spend = useMonthlySpend('account');
  const now = useNow();
  const mayReadUsage = may(useSession(), 'reports.usage');
  // Rows are ordered by spend: drawn before, they would move.
  const ready = spend !== undefined || !mayReadUsage;
  const [show, setShow] = useParameter('show', 'current');
  const rows = accounts.rows.filter(({ status }) => (status === 'deleted') === (show === 'deleted'));
  const opened = search.get('open') ?? undefined;
  const open = useAccount(
    opened,
    accounts.rows.find(({ id }) => id === opened),
  );
  const limit = (value: number | null) =>
    value === null ? <span class="muted">{texts.accounts.defaultLimit}</span> : compact(value);
  const { columns } = texts.accounts;
  return (
    <Page
      title={texts.accounts.title}
      about={texts.accounts.about}
      action={
        <Button tone="primary" icon="plus" onClick={() => changeSearch({ new: 'account' })}>
          {texts.accounts.create}
        </Button>
      }
      filters={
        <>
          <Segments label={columns.status} options={optionsOf(texts.accounts.show)} value={show} onValue={setShow} />
          <SearchField label={texts.common.search} value={find} onValue={setFind} />
        </>
      }
    >
      <Listing
        query={ready ? accounts : { ...accounts, data: undefined }}
        rows={rows}
        label={texts.accounts.title}
        rowKey={({ id }) => id}
        selected={open?.id}
        onOpen={({ id }) => changeSearch({ open: id })}
        initialSort="-spend"
        filters={{ find: undefined, show: undefined }}
        columns={[
          {
            id: 'name',
            label: columns.name,
            sortBy: ({ name }) => name.toLowerCase(),
            cell: ({ id, name }) => (
              <button type="button" class="row-button row-name" title={id} onClick={() => changeSearch({ open: id })}>
                {name}
              </button>
            ),
          },
          {
            id: 'status',
            label: columns.status,
            sortBy: ({ status }) => status,
            cell: (account) => <AccountStatus account={account} />,
          },
          {
            id: 'spend',
            label: columns.spend,
            number: true,
            sortBy: (account) => spend?.get(account) ?? 0,
            cell: (account) => <SpendCell spend={spend?.get(account)} budget={account.monthly_budget_usd} />,
          },
          {
            id: 'rpm',
            label: columns.rpm,
            number: true,
            wide: true,
            sortBy: ({ rpm }) => rpm ?? 0,
            cell: ({ rpm }) => limit(rpm),
          },
          {
            id: 'tpm',
            label: columns.tpm,
            number: true,
            wide: true,
            sortBy: ({ tpm }) => tpm ?? 0,
            cell: ({ tpm }) => limit(tpm),
          },
          {
            id: 'created',
            label: columns.created,
            wide: true,
            sortBy: (account) => account.created_at,
            cell: (account) => <span title={exactTime(account.created_at)}>{ago(account.created_at, now)}</span>,
          },
        ]}
        empty={
          <Empty icon="accounts" title={texts.accounts.emptyTitle}>
            <p>{texts.accounts.emptyText}</p>
          </Empty>
        }
      />
      {search.get('new') === 'account' && <CreateAccount onClose={() => changeSearch({ new: undefined })} />}
      {open && (
        <AccountSheet
          key={open.id}
          account={open}
          spend={spend?.get(open) ?? 0}
          onClose={() => changeSearch({ open: undefined })}
        />
      )}
    </Page>
  );
}

function CreateAccount({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('');
  const [draft, setDraft] = useState(emptyDraft);
  const { accounts } = texts;
  const form = useForm({ name: name.trim(), ...draftToWire(draft) }, async (body) => {
    await call<Account>('/v1/admin/accounts', { method: 'POST', body });
    await queryClient.invalidateQueries({ queryKey: ['accounts'] });
    toast(accounts.created(body.name));
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
