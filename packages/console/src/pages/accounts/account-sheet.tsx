import { useState } from 'preact/hooks';
import { href } from '../../address/router.ts';
import { exactTime } from '../../address/zone.ts';
import { call } from '../../api/client.ts';
import { useSystem } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import type { Account } from '../../api/types.ts';
import { Button, LinkButton } from '../../components/button.tsx';
import { Copyable } from '../../components/copying.tsx';
import { Details } from '../../components/details.tsx';
import { Badge, toast, toastFailure } from '../../components/feedback.tsx';
import { TextField } from '../../components/fields.tsx';
import { useSave } from '../../components/form.tsx';
import { Modal, Sheet } from '../../components/overlay.tsx';
import { bytes, full } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';
import { BudgetMeter, Spend } from '../spend/spend.tsx';
import { ACCOUNT_FIELDS, type AccountDraft, AccountFields, draftOf, draftToWire } from './account-fields.tsx';

const TONES = { active: 'good', suspended: 'warn', deleted: 'bad' } as const;

export function AccountStatus({ account: { status } }: { account: Account }) {
  return <Badge tone={TONES[status]}>{texts.accounts.statuses[status]}</Badge>;
}

export interface AccountSheetProps {
  account: Account;
  spend: number;
  onClose: () => void;
}

const refresh = () => queryClient.invalidateQueries({ queryKey: ['accounts'] });

export function AccountSheet({ account, spend, onClose }: AccountSheetProps) {
  const [draft, setDraft] = useState<AccountDraft>(draftOf(account));
  const [removing, setRemoving] = useState(false);
  const quota = useSystem().data?.configuration.files;
  const { accounts } = texts;
  const path = `/v1/admin/accounts/${account.id}`;
  const changed = JSON.stringify(draft) !== JSON.stringify(draftOf(account));

  const { error, save } = useSave<AccountDraft>({
    fields: ACCOUNT_FIELDS,
    body: draftToWire(draft),
    show: setDraft,
    saved: accounts.saved(account.name),
    async write(changes) {
      await call(path, { method: 'POST', body: draftToWire(changes) });
      await refresh();
    },
  });
  // Suspending can be undone, so it offers that instead of a question.
  const setSuspended = async (suspended: boolean) => {
    try {
      await call(`${path}/${suspended ? 'suspend' : 'resume'}`, { method: 'POST' });
      await refresh();
      toast(
        suspended ? accounts.suspended(account.name) : accounts.resumed(account.name),
        suspended ? { action: { label: texts.common.undo, run: () => void setSuspended(false) } } : {},
      );
    } catch (failure) {
      toastFailure(failure);
    }
  };
  const budget = account.monthly_budget_usd;
  const deleted = account.status === 'deleted';
  return (
    <Sheet
      title={account.name}
      about={<Copyable text={account.id} />}
      onClose={onClose}
      foot={
        !deleted && (
          <>
            <Button tone="danger" icon="trash" onClick={() => setRemoving(true)}>
              {accounts.remove}
            </Button>
            <Button onClick={() => void setSuspended(account.status === 'active')}>
              {account.status === 'active' ? accounts.suspend : accounts.resume}
            </Button>
            <Button tone="primary" disabled={!changed} onClick={() => save(draftOf(account), draft)}>
              {texts.common.save}
            </Button>
          </>
        )
      }
    >
      <div class="stack">
        <Details
          rows={[
            [accounts.columns.status, <AccountStatus key="status" account={account} />],
            [accounts.columns.created, exactTime(account.created_at)],
            quota?.quota_bytes !== undefined && [
              accounts.quota,
              <span key="quota">
                {accounts.quotaOf(bytes(quota.quota_bytes), full(quota.quota_files ?? 0))}
                <span class="muted">, {accounts.quotaHint}</span>
              </span>,
            ],
            [accounts.columns.spend, <Spend key="spend" spend={spend} budget={budget} />],
            account.aliases.length > 0 && [
              accounts.aliases,
              account.aliases.map(({ name, model }) => `${name} → ${model}`).join(', '),
            ],
          ]}
        />
        <BudgetMeter spend={spend} budget={budget} />
        <div class="row row-wrap">
          <LinkButton size="small" icon="usage" href={href('/usage', { account: account.id })}>
            {accounts.usageOf}
          </LinkButton>
          <LinkButton size="small" icon="keys" href={href('/keys', { account: account.id })}>
            {accounts.keysOf}
          </LinkButton>
          <LinkButton size="small" icon="audit" href={href('/audit', { account: account.id, range: '365d' })}>
            {accounts.changesOf}
          </LinkButton>
        </div>
        {!deleted && <AccountFields draft={draft} onChange={setDraft} error={error} />}
      </div>
      {removing && <RemoveAccount account={account} path={path} onClose={() => setRemoving(false)} />}
    </Sheet>
  );
}

function RemoveAccount({ account, path, onClose }: { account: Account; path: string; onClose: () => void }) {
  const [typed, setTyped] = useState('');
  const { accounts } = texts;
  const remove = async () => {
    try {
      await call(path, { method: 'DELETE' });
      await refresh();
      toast(accounts.removed(account.name));
    } catch (error) {
      toastFailure(error);
    }
    onClose();
  };
  return (
    <Modal
      title={accounts.removeTitle(account.name)}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{texts.common.cancel}</Button>
          <Button tone="danger-filled" disabled={typed !== account.name} onClick={() => void remove()}>
            {accounts.remove}
          </Button>
        </>
      }
    >
      <p>{accounts.removeText}</p>
      <TextField label={accounts.removeConfirm(account.name)} value={typed} onValue={setTyped} />
    </Modal>
  );
}
