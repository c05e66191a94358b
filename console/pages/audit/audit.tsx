import { useEffect, useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import type { AuditEntry, List } from '../../api/types.ts';
import { useQuery } from '../../app/query.ts';
import { useRange } from '../../app/range.ts';
import { changeSearch, usePlace } from '../../app/router.ts';
import { ALL_ACCOUNTS, may, useAccountFilter, useSession } from '../../app/session.ts';
import { Button, optionsOf, Select } from '../../components/controls.tsx';
import { Empty, Failure, toastFailure } from '../../components/feedback.tsx';
import { Page } from '../../components/page.tsx';
import { FilterChip, RangeFilter } from '../../components/range-filter.tsx';
import { type Column, Table, TableSkeleton } from '../../components/table.tsx';
import { full } from '../../format/numbers.ts';
import { dateTime, shortTime } from '../../format/times.ts';
import { texts } from '../../texts/en.ts';
import { Action, actorName, from, Named, Summary } from './audit-parts.tsx';
import { AuditSheet } from './audit-sheet.tsx';

const PRESETS = ['24h', '7d', '30d', '90d', '365d'];
const PAGE = 50;
const FILTERS = ['action', 'target', 'actor'] as const;
const { audit } = texts;

const open = ({ id, time }: AuditEntry) => changeSearch({ entry: id, at: time });

function columnsFor(zone: string, several: boolean): Column<AuditEntry>[] {
  return [
    {
      id: 'time',
      label: `${audit.columns.time} (${zone})`,
      cell: (entry) => (
        <button type="button" class="row-button numbers" title={dateTime(entry.time, zone)} onClick={() => open(entry)}>
          {shortTime(entry.time, zone)}
        </button>
      ),
    },
    { id: 'action', label: audit.columns.action, cell: ({ action }) => <Action action={action} /> },
    {
      id: 'target',
      label: audit.columns.target,
      cell: ({ target }) => (
        <Named name={target.name} account={several && target.type === 'key' ? target.account_name : null} />
      ),
    },
    {
      id: 'actor',
      label: audit.columns.actor,
      wide: true,
      cell: (entry) => <Named name={actorName(entry)} account={several ? entry.actor.account_name : null} />,
    },
    {
      id: 'from',
      label: audit.columns.from,
      extra: true,
      cell: (entry) => <span class="truncate">{from(entry)}</span>,
    },
    {
      id: 'changes',
      label: audit.columns.changes,
      wide: true,
      cell: (entry) => <Summary entry={entry} zone={zone} />,
    },
  ];
}

/** For operators all accounts or one of them, for members with the scope `keys` their own. */
export default function Audit() {
  const { search } = usePlace();
  const isOperator = may(useSession(), 'admin');
  const path = isOperator ? '/v1/admin/audit' : '/v1/audit';
  const account = useAccountFilter();
  const several = account === ALL_ACCOUNTS;
  const range = useRange('30d');
  const filter = (name: (typeof FILTERS)[number]) => search.get(name) ?? undefined;
  const query = {
    limit: PAGE,
    start: range.start,
    end: range.end,
    action: filter('action'),
    target: filter('target'),
    actor: isOperator ? filter('actor') : undefined,
    account: several ? undefined : account,
  };
  // The start of a preset moves every minute. The list must not be thrown away for that.
  const identity = JSON.stringify({ ...query, start: range.name === 'custom' ? range.start : range.name });
  const first = useQuery<List<AuditEntry>>({
    key: ['audit', identity],
    fetch: (signal) => call(path, { query, signal }),
  });
  const [older, setOlder] = useState<List<AuditEntry>[]>([]);
  const [loading, setLoading] = useState(false);
  useEffect(() => setOlder([]), [identity]);

  const rows = [first.data, ...older].flatMap((page) => page?.data ?? []);
  const last = older.at(-1) ?? first.data;
  const filtered = FILTERS.some((name) => search.has(name));
  const refresh = () => {
    setOlder([]);
    void first.refetch();
  };
  const loadOlder = async () => {
    if (!last?.next_cursor) return;
    setLoading(true);
    try {
      const page = await call<List<AuditEntry>>(path, { query: { ...query, after: last.next_cursor } });
      setOlder((pages) => [...pages, page]);
    } catch (error) {
      toastFailure(error);
    }
    setLoading(false);
  };
  const clear = () => changeSearch(Object.fromEntries(FILTERS.map((name) => [name, undefined])));
  const actorOf = (id: string) => rows.find(({ actor }) => actor.id === id)?.actor.name ?? id;
  const shown = search.get('entry') ?? undefined;

  return (
    <Page
      title={audit.title}
      about={audit.about}
      action={
        <Button icon="rotate" onClick={refresh}>
          {texts.common.refresh}
        </Button>
      }
      filters={
        <>
          <RangeFilter range={range} presets={PRESETS} />
          <Select
            inline
            label={audit.columns.action}
            options={[{ value: '', label: audit.anyAction }, ...optionsOf(audit.actions)]}
            value={filter('action') ?? ''}
            onValue={(action) => changeSearch({ action })}
          />
          <input
            class="input input-find mono"
            type="search"
            aria-label={audit.findTarget}
            placeholder={audit.findTarget}
            value={filter('target') ?? ''}
            onChange={(event) => changeSearch({ target: event.currentTarget.value.trim() })}
          />
          {query.actor && (
            <FilterChip
              name={audit.columns.actor}
              value={actorOf(query.actor)}
              onRemove={() => changeSearch({ actor: undefined })}
            />
          )}
        </>
      }
    >
      {first.isError && !first.data && <Failure error={first.error} onRetry={refresh} />}
      {first.isPending && <TableSkeleton rows={12} columns={6} />}
      {first.data && rows.length === 0 && filtered && (
        <Empty
          icon="search"
          title={texts.common.noMatch}
          action={<Button onClick={clear}>{texts.common.clearFilters}</Button>}
        />
      )}
      {first.data && rows.length === 0 && !filtered && (
        <Empty icon="audit" title={audit.emptyTitle}>
          <p>{audit.emptyText}</p>
        </Empty>
      )}
      {rows.length > 0 && (
        <div class="stack-tight">
          <Table
            label={audit.title}
            columns={columnsFor(range.zone, several)}
            rows={rows}
            rowKey={({ id }) => id}
            selected={shown}
            onOpen={open}
            pageSize={10_000}
            foot={audit.shown(full(rows.length))}
          />
          {last?.has_more && (
            <div>
              <Button disabled={loading} onClick={() => void loadOlder()}>
                {audit.older}
              </Button>
            </div>
          )}
        </div>
      )}
      {shown && (
        <AuditSheet
          id={shown}
          time={search.get('at') ?? ''}
          known={rows.find(({ id }) => id === shown)}
          path={path}
          zone={range.zone}
          onClose={() => changeSearch({ entry: undefined, at: undefined })}
        />
      )}
    </Page>
  );
}
