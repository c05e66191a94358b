import { useState } from 'preact/hooks';
import { useAccounts, useKeys } from '../../api/queries.ts';
import type { Key, NewKey } from '../../api/types.ts';
import { useNow } from '../../app/range.ts';
import { changeSearch, useParameter, usePlace } from '../../app/router.ts';
import { may, useAccountFilter, useSession } from '../../app/session.ts';
import { Button, optionsOf, Segments } from '../../components/controls.tsx';
import { Empty, Failure } from '../../components/feedback.tsx';
import { Page } from '../../components/page.tsx';
import { type Column, Table, TableSkeleton } from '../../components/table.tsx';
import { full } from '../../format/numbers.ts';
import { ago, date, dateTime } from '../../format/times.ts';
import { texts } from '../../texts/en.ts';
import { useMonthlySpend } from '../monthly-spend.ts';
import { SpendCell } from '../spend.tsx';
import { CreateKey } from './create-key.tsx';
import { KeyDetail } from './key-detail.tsx';
import { KeyModels, KeyRights, KeyStatus, keyState } from './key-parts.tsx';
import { SecretSheet } from './secret-sheet.tsx';

export default function Keys() {
  const session = useSession();
  const { search } = usePlace();
  const keys = useKeys();
  const accounts = useAccounts();
  const account = useAccountFilter();
  const spend = useMonthlySpend('key');
  // A key that has just ended must not count as active for the rest of the minute.
  const now = Math.max(useNow(), Date.now());
  const [show, setShow] = useParameter('show', 'active');
  const [find, setFind] = useParameter('find');
  const [created, setCreated] = useState<NewKey>();

  if (!may(session, 'keys')) {
    return (
      <Page title={texts.keys.title} about={texts.keys.about}>
        <Empty icon="keys" title={texts.keys.title}>
          <p>{texts.keys.forbidden}</p>
        </Empty>
      </Page>
    );
  }

  const all = keys.data?.data ?? [];
  const words = find.toLowerCase();
  const rows = all.filter(
    (key) =>
      (show === 'all' || keyState(key, now) === 'active') &&
      (words === '' || `${key.name} ${key.prefix} ${key.id}`.toLowerCase().includes(words)),
  );
  const open = all.find(({ id }) => id === search.get('key'));
  const accountName = (id: string) => accounts.data?.data.find((each) => each.id === id)?.name ?? id;
  const columns: Column<Key>[] = [
    {
      id: 'name',
      label: texts.keys.columns.name,
      sortBy: ({ name }) => name.toLowerCase(),
      cell: (key) => (
        <button type="button" class="row-button" title={key.name} onClick={() => changeSearch({ key: key.id })}>
          {key.name}
        </button>
      ),
    },
    {
      id: 'key',
      label: texts.keys.columns.key,
      extra: true,
      cell: ({ prefix }) => <code class="muted">{prefix}…</code>,
    },
    ...(account === '*'
      ? [
          {
            id: 'account',
            label: texts.keys.columns.account,
            wide: true,
            sortBy: (key: Key) => accountName(key.account_id),
            cell: (key: Key) => <span class="truncate">{accountName(key.account_id)}</span>,
          },
        ]
      : []),
    { id: 'scopes', label: texts.keys.columns.scopes, wide: true, cell: (key) => <KeyRights keyRecord={key} /> },
    { id: 'models', label: texts.keys.columns.models, extra: true, cell: (key) => <KeyModels keyRecord={key} /> },
    {
      id: 'spend',
      label: texts.keys.columns.spend,
      number: true,
      sortBy: ({ id }) => spend?.get(id) ?? 0,
      cell: ({ id, monthly_budget_usd: budget }) => <SpendCell spend={spend && (spend.get(id) ?? 0)} budget={budget} />,
    },
    {
      id: 'used',
      label: texts.keys.columns.used,
      sortBy: ({ last_used_at }) => (last_used_at === null ? 0 : Date.parse(last_used_at)),
      cell: ({ last_used_at: used }) =>
        used === null ? (
          <span class="muted">{texts.common.never}</span>
        ) : (
          <span title={dateTime(used, 'UTC')}>{ago(used, now)}</span>
        ),
    },
    {
      id: 'expires',
      label: texts.keys.columns.expires,
      extra: true,
      sortBy: ({ expires_at }) => (expires_at === null ? Number.POSITIVE_INFINITY : Date.parse(expires_at)),
      cell: ({ expires_at: expires }) =>
        expires === null ? <span class="muted">{texts.common.never}</span> : date(expires, 'UTC'),
    },
    ...(show === 'all'
      ? [
          {
            id: 'status',
            label: texts.keys.columns.status,
            cell: (key: Key) => <KeyStatus keyRecord={key} now={now} />,
          },
        ]
      : []),
  ];

  return (
    <Page
      title={texts.keys.title}
      about={account === '*' ? texts.keys.aboutAll : texts.keys.about}
      action={
        <Button tone="primary" icon="plus" onClick={() => changeSearch({ new: 'key' })}>
          {texts.keys.create}
        </Button>
      }
      filters={
        <>
          <Segments
            label={texts.keys.columns.status}
            options={optionsOf(texts.keys.show)}
            value={show}
            onValue={setShow}
          />
          <input
            class="input input-find"
            type="search"
            aria-label={texts.common.search}
            placeholder={texts.common.search}
            value={find}
            onInput={(event) => setFind(event.currentTarget.value)}
          />
        </>
      }
    >
      {keys.isError && !keys.data && <Failure error={keys.error} onRetry={() => void keys.refetch()} />}
      {keys.isPending && <TableSkeleton />}
      {keys.data && all.length === 0 && (
        <Empty
          icon="keys"
          title={texts.keys.emptyTitle}
          action={
            <Button tone="primary" icon="plus" onClick={() => changeSearch({ new: 'key' })}>
              {texts.keys.create}
            </Button>
          }
        >
          <p>{texts.keys.emptyText}</p>
        </Empty>
      )}
      {all.length > 0 && rows.length === 0 && (
        <Empty
          icon="search"
          title={texts.common.noMatch}
          action={
            <Button onClick={() => changeSearch({ find: undefined, show: 'all' })}>{texts.common.clearFilters}</Button>
          }
        />
      )}
      {rows.length > 0 && (
        <Table
          label={texts.keys.title}
          columns={columns}
          rows={rows}
          rowKey={({ id }) => id}
          selected={open?.id}
          onOpen={({ id }) => changeSearch({ key: id })}
          initialSort="-used"
          foot={texts.common.count(full(rows.length))}
        />
      )}
      {search.get('new') === 'key' && created === undefined && (
        <CreateKey onClose={() => changeSearch({ new: undefined })} onCreated={setCreated} />
      )}
      {created !== undefined && (
        <SecretSheet
          created={created}
          onClose={() => {
            setCreated(undefined);
            changeSearch({ new: undefined, key: undefined });
          }}
        />
      )}
      {open && created === undefined && (
        <KeyDetail
          keyRecord={open}
          spend={spend?.get(open.id) ?? 0}
          onClose={() => changeSearch({ key: undefined })}
          onRotated={setCreated}
        />
      )}
    </Page>
  );
}
