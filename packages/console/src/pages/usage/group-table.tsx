import { MEASURE_NAMES, MEASURES, type MeasureName } from '@baobab/core/domain/measures.ts';
import type { UsageFigures } from '../../api/types.ts';
import { colorVariable } from '../../charts/colors.ts';
import { type Group, type GroupTotal, type Metric, metricValue, OTHERS } from '../../charts/grouping.ts';
import type { Series } from '../../charts/plot.ts';
import { Slug } from '../../components/slug.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { full, moneyColumn, percent } from '../../format/numbers.ts';
import { audioLength } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';

/** Shown unless the screen is narrow. The others are shown on request. */
const MAIN: readonly MeasureName[] = ['promptTokens', 'completionTokens'];

/** The columns of usage, with the exact numbers of the ledger. */
export function usageColumns<T extends UsageFigures>(totals: UsageFigures): Column<T>[] {
  const { figures } = texts;
  const count = (id: string, label: string, value: (row: UsageFigures) => number, wide = false): Column<T> => ({
    id,
    label,
    number: true,
    wide,
    cell: (row) => full(value(row)),
    sortBy: value,
    foot: full(value(totals)),
  });
  return [
    {
      id: 'cost',
      label: figures.spend,
      number: true,
      cell: (row) => moneyColumn(row.cost_usd),
      sortBy: (row) => row.cost_usd,
      foot: moneyColumn(totals.cost_usd),
    },
    count('requests', figures.requests, (row) => row.requests, true),
    ...MEASURE_NAMES.map((name): Column<T> => {
      const { short, unit, wireName } = MEASURES[name];
      const column = count(short, figures[short], (row) => row[wireName]);
      if (MAIN.includes(name)) return { ...column, wide: true };
      const show = unit === 'seconds' ? audioLength : full;
      return { ...column, extra: true, cell: (row) => show(row[wireName]), foot: show(totals[wireName]) };
    }),
  ];
}

export interface GroupTableProps {
  rows: GroupTotal[];
  totals: UsageFigures;
  group: Group;
  series: Series[];
  metric: Metric;
  onOpen: (id: string) => void;
}

export function GroupTable({ rows, totals, group, series, metric, onOpen }: GroupTableProps) {
  const hues = new Map(series.map(({ id, hue }) => [id, hue]));
  const whole = metricValue(totals, metric);
  const columns: Column<GroupTotal>[] = [
    {
      id: 'name',
      label: texts.usage.groups[group],
      sortBy: ({ label }) => label,
      cell: ({ id, label }) =>
        group === '' || id === OTHERS ? (
          <span class="row-name">{group === '' ? texts.common.total : label}</span>
        ) : (
          <span class="row">
            <span class="swatch" style={{ background: `var(${colorVariable(hues.get(id) ?? -1)})` }} />
            <button type="button" class="row-button" title={id} onClick={() => onOpen(id)}>
              {group === 'model' ? <Slug slug={label} /> : label}
            </button>
          </span>
        ),
      foot: texts.common.total,
    },
    ...usageColumns<GroupTotal>(totals),
    {
      id: 'share',
      label: texts.usage.share,
      number: true,
      sortBy: (row) => metricValue(row, metric),
      cell: (row) => percent(whole > 0 ? metricValue(row, metric) / whole : 0),
      foot: '',
    },
  ];
  return (
    <Table
      label={texts.usage.byGroup(texts.usage.groups[group])}
      columns={columns}
      rows={rows}
      rowKey={({ id }) => id}
      initialSort={metric === 'tokens' ? '-share' : `-${metric}`}
    />
  );
}
