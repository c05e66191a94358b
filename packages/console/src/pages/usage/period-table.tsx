import type { Range } from '../../address/range.ts';
import type { UsageBucket, UsageFigures } from '../../api/types.ts';
import { type Group, groupOf } from '../../charts/grouping.ts';
import { type Column, Table } from '../../components/table.tsx';
import { bucketLabel } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { usageColumns } from './group-table.tsx';

export interface PeriodTableProps {
  buckets: UsageBucket[];
  totals: UsageFigures;
  group: Group;
  range: Range;
}

export function PeriodTable({ buckets, totals, group, range }: PeriodTableProps) {
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
