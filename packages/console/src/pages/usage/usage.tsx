import { DIMENSION_NAMES } from '@baobab/core/domain/measures.ts';
import { isOperator } from '@baobab/core/domain/operations.ts';
import { useMemo } from 'preact/hooks';
import { type Range, setCustomRange, useRange } from '../../address/range.ts';
import { changeSearch, usePlace } from '../../address/router.ts';
import { address } from '../../api/client.ts';
import { usageQuery, useUsage } from '../../api/queries.ts';
import { useAccountFilter, useSession } from '../../api/session.ts';
import type { UsageBucket, UsageFigures } from '../../api/types.ts';
import { useBuckets } from '../../charts/buckets.ts';
import {
  type Group,
  groupOf,
  groupSeries,
  groupTotals,
  type Metric,
  metricValue,
  OTHERS,
  readMetric,
} from '../../charts/grouping.ts';
import { TimeChart } from '../../charts/time-chart.tsx';
import { LinkButton } from '../../components/button.tsx';
import { optionsOf, Segments, Select } from '../../components/choices.tsx';
import { Empty } from '../../components/feedback.tsx';
import { Loaded } from '../../components/listing.tsx';
import { Card, Page, Skeleton } from '../../components/page.tsx';
import { FilterChip, RangeFilter, type RangeFilterProps } from '../../components/range-filter.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { COUNT_STEPS, compact, full, money, moneyAxis, moneyExact } from '../../format/numbers.ts';
import { bucketLabel } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { GroupTable, usageColumns } from './group-table.tsx';

function readGroup(value: string | null): Group {
  if (value === 'none') return '';
  return DIMENSION_NAMES.find((name) => name === value) ?? 'model';
}

export default function Usage() {
  const account = useAccountFilter();
  const { search } = usePlace();
  const range = useRange('30d');
  const metric = readMetric(search.get('metric'));
  const group = readGroup(search.get('group'));
  const view = search.get('view') ?? 'group';
  const filters = {
    groupBy: group,
    model: search.get('model') ?? undefined,
    key: search.get('key') ?? undefined,
    region: search.get('region') ?? undefined,
  };
  const usage = useUsage(range, range.bucket, filters);
  const { startsMs, times } = useBuckets(range);
  const buckets = usage.data?.buckets;
  const series = useMemo(
    () => groupSeries(buckets ?? [], { group, metric, startsMs }),
    [buckets, group, metric, startsMs],
  );
  const totals = useMemo(() => groupTotals(buckets ?? [], group), [buckets, group]);
  const total = usage.data && metricValue(usage.data.totals, metric);
  const show = metric === 'cost' ? money : compact;
  const exact = metric === 'cost' ? moneyExact : full;
  const exportPath = address('/v1/usage', {
    // All groups, not only those that are shown.
    ...usageQuery(range, range.bucket, filters, account),
    format: 'csv',
  });
  // A key is known by its id in the address; people know its name.
  const nameOf = (filter: string, value: string) =>
    filter === 'key' ? (buckets?.find(({ key }) => key === value)?.key_name ?? value) : value;

  const filterSeries = (id: string) => {
    if (group === '' || id === OTHERS) return;
    changeSearch({ [group]: id, group: group === 'model' ? 'key' : 'model' });
  };

  return (
    <Page
      title={texts.usage.title}
      about={texts.usage.about}
      action={
        <LinkButton href={exportPath} icon="download" download={`usage-${range.start.slice(0, 10)}.csv`}>
          {texts.usage.export}
        </LinkButton>
      }
      filters={<UsageFilters metric={metric} group={group} range={range} filters={filters} nameOf={nameOf} />}
    >
      <Loaded query={usage} skeleton={<Skeleton height={420} />}>
        {(report) =>
          report.buckets.length === 0 ? (
            <Empty icon="usage" title={texts.usage.empty}>
              <p>{texts.usage.emptyHint}</p>
            </Empty>
          ) : (
            <div class="stack">
              <Card
                title={texts.usage.metrics[metric]}
                aside={<span class="chart-zone">{texts.charts.zone(range.zone)}</span>}
              >
                <p class="headline">{exact(total ?? 0)}</p>
                <TimeChart
                  label={texts.usage.metrics[metric]}
                  times={times}
                  series={series}
                  kind="bars"
                  fromMs={range.fromMs}
                  toMs={range.toMs}
                  zone={range.zone}
                  bucket={range.bucket}
                  height={280}
                  format={show}
                  formatAxis={metric === 'cost' ? moneyAxis : undefined}
                  steps={metric === 'cost' ? undefined : COUNT_STEPS}
                  exact={exact}
                  onZoom={setCustomRange}
                  onSeries={filterSeries}
                />
              </Card>
              <Segments
                label={texts.common.table}
                value={view}
                onValue={(value) => changeSearch({ view: value === 'group' ? undefined : value, sort: undefined })}
                options={[
                  {
                    value: 'group',
                    label: group === '' ? texts.common.total : texts.usage.byGroup(texts.usage.groups[group]),
                  },
                  { value: 'time', label: texts.usage.byTime },
                ]}
              />
              {view === 'time' ? (
                <PeriodTable buckets={report.buckets} totals={report.totals} group={group} range={range} />
              ) : (
                <GroupTable
                  rows={totals}
                  totals={report.totals}
                  group={group}
                  series={series}
                  metric={metric}
                  onOpen={filterSeries}
                />
              )}
            </div>
          )
        }
      </Loaded>
    </Page>
  );
}

interface PeriodTableProps {
  buckets: UsageBucket[];
  totals: UsageFigures;
  group: Group;
  range: Range;
}

function PeriodTable({ buckets, totals, group, range }: PeriodTableProps) {
  const columns: Column<UsageBucket>[] = [
    {
      id: 'period',
      label: `${texts.usage.period} (${range.zone})`,
      sortBy: ({ start }) => start,
      cell: ({ start }) => bucketLabel(start, range.bucket, range.zone),
      foot: texts.common.total,
    },
    ...(group === ''
      ? []
      : [
          {
            id: 'name',
            label: texts.usage.groups[group],
            sortBy: (row: UsageBucket) => groupOf(row, group).label,
            cell: (row: UsageBucket) => <span class="truncate">{groupOf(row, group).label}</span>,
            foot: '',
          },
        ]),
    ...usageColumns<UsageBucket>(totals),
  ];
  return (
    <Table
      label={texts.usage.byTime}
      columns={columns}
      rows={buckets}
      rowKey={(row) => `${row.start} ${groupOf(row, group).id}`}
      initialSort="-period"
    />
  );
}

/** The account is chosen for the whole console. */
const FILTERS = DIMENSION_NAMES.filter((name) => name !== 'account');
type Filter = (typeof FILTERS)[number];

interface UsageFiltersProps {
  metric: Metric;
  group: Group;
  range: RangeFilterProps['range'];
  filters: Readonly<Record<Filter, string | undefined>>;
  nameOf(filter: Filter, value: string): string;
}

function UsageFilters({ metric, group, range, filters, nameOf }: UsageFiltersProps) {
  const session = useSession();
  const groups = ['', ...(isOperator(session) ? DIMENSION_NAMES : FILTERS)] as const;
  return (
    <>
      <Select
        inline
        label={texts.usage.metric}
        options={optionsOf(texts.usage.metrics)}
        value={metric}
        onValue={(value) => changeSearch({ metric: value === 'cost' ? undefined : value })}
      />
      <Select
        inline
        label={texts.usage.groupBy}
        options={groups.map((value) => ({
          value,
          label: value === '' ? texts.usage.groups[''] : texts.usage.byGroup(texts.usage.groups[value]),
        }))}
        value={group}
        onValue={(value) => changeSearch({ group: value === '' ? 'none' : value })}
      />
      <RangeFilter range={range} buckets />
      {FILTERS.map((filter) => {
        const value = filters[filter];
        return value === undefined ? null : (
          <FilterChip
            key={filter}
            name={texts.usage.groups[filter]}
            value={nameOf(filter, value)}
            onRemove={() => changeSearch({ [filter]: undefined })}
          />
        );
      })}
    </>
  );
}
