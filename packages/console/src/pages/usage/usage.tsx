import { DIMENSION_NAMES } from '@baobab/core/domain/measures.ts';
import { useMemo } from 'preact/hooks';
import { setCustomRange, useRange } from '../../address/range.ts';
import { changeSearch, usePlace } from '../../address/router.ts';
import { address } from '../../api/client.ts';
import { usageQuery, useUsage } from '../../api/queries.ts';
import { useAccountFilter } from '../../api/session.ts';
import { useBuckets } from '../../charts/buckets.ts';
import { type Group, groupSeries, groupTotals, metricValue, readMetric } from '../../charts/grouping.ts';
import { TimeChart } from '../../charts/time-chart.tsx';
import { LinkButton } from '../../components/button.tsx';
import { Segments } from '../../components/choices.tsx';
import { Empty } from '../../components/feedback.tsx';
import { Loaded } from '../../components/listing.tsx';
import { Card, Page, Skeleton } from '../../components/page.tsx';
import { compact, full, money, moneyAxis, moneyExact } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';
import { GroupTable } from './group-table.tsx';
import { PeriodTable } from './period-table.tsx';
import { UsageFilters } from './usage-filters.tsx';

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
    ...usageQuery(range, range.bucket, filters, account),
    format: 'csv',
  });
  // A key is known by its id in the address; people know its name.
  const nameOf = (filter: string, value: string) =>
    filter === 'key' ? (buckets?.find(({ key }) => key === value)?.key_name ?? value) : value;

  const filterSeries = (id: string) => {
    if (group === '') return;
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
                <p class="headline" title={exact(total ?? 0)}>
                  {show(total ?? 0)}
                </p>
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
