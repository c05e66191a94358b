import { isOperator } from '@baobab/core/domain/operations.ts';
import { useRange } from '../../address/range.ts';
import { changeSearch, usePlace } from '../../address/router.ts';
import { useAudit } from '../../api/queries.ts';
import { ALL_ACCOUNTS, useAccountFilter, useSession } from '../../api/session.ts';
import type { AuditEntry } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { optionsOf, Select } from '../../components/choices.tsx';
import { Empty } from '../../components/feedback.tsx';
import { SearchField } from '../../components/fields.tsx';
import { Listing } from '../../components/listing.tsx';
import { Page } from '../../components/page.tsx';
import { FilterChip, RangeFilter } from '../../components/range-filter.tsx';
import type { Column } from '../../components/table.tsx';
import { dateTime, shortTime } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { Action, actorName, from, Named, Summary } from './audit-parts.tsx';
import { AuditSheet } from './audit-sheet.tsx';

const PRESETS = ['24h', '7d', '30d', '90d', '365d'];
const NO_FILTERS = { action: undefined, target: undefined, actor: undefined };
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
    { id: 'action', label: audit.columns.action, card: 'badge', cell: ({ action }) => <Action action={action} /> },
    {
      id: 'target',
      label: audit.columns.target,
      card: 'title',
      cell: ({ target }) => (
        <Named name={target.name} account={several && target.type === 'key' ? target.account_name : null} />
      ),
    },
    {
      id: 'actor',
      label: audit.columns.actor,
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
  const account = useAccountFilter();
  const several = account === ALL_ACCOUNTS;
  const range = useRange('30d');
  const filter = (name: keyof typeof NO_FILTERS) => search.get(name) ?? undefined;
  const actor = isOperator(useSession()) ? filter('actor') : undefined;
  const entries = useAudit(range, { action: filter('action'), target: filter('target'), actor });
  const { rows } = entries;
  const actorOf = (id: string) => rows.find((entry) => entry.actor.id === id)?.actor.name ?? id;
  const shown = search.get('entry') ?? undefined;

  return (
    <Page
      title={audit.title}
      about={audit.about}
      action={
        <Button icon="rotate" onClick={() => void entries.refetch()}>
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
          <SearchField
            mono
            label={audit.findTarget}
            value={filter('target') ?? ''}
            onCommit={(target) => changeSearch({ target })}
          />
          {actor && (
            <FilterChip
              name={audit.columns.actor}
              value={actorOf(actor)}
              onRemove={() => changeSearch({ actor: undefined })}
            />
          )}
        </>
      }
    >
      <Listing
        query={entries}
        label={audit.title}
        rowKey={({ id }) => id}
        skeletonRows={12}
        columns={columnsFor(range.zone, several)}
        filters={NO_FILTERS}
        empty={
          <Empty icon="audit" title={audit.emptyTitle}>
            <p>{audit.emptyText}</p>
          </Empty>
        }
        selected={shown}
        onOpen={open}
      />
      {shown && (
        <AuditSheet
          id={shown}
          time={search.get('at') ?? ''}
          known={rows.find(({ id }) => id === shown)}
          zone={range.zone}
          onClose={() => changeSearch({ entry: undefined, at: undefined })}
        />
      )}
    </Page>
  );
}
