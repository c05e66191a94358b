import { DIMENSION_NAMES } from '@baobab/core/domain/measures.ts';
import { isOperator } from '@baobab/core/domain/operations.ts';
import { changeSearch } from '../../address/router.ts';
import { useSession } from '../../api/session.ts';
import type { Group, Metric } from '../../charts/grouping.ts';
import { optionsOf, Select } from '../../components/choices.tsx';
import { FilterChip, RangeFilter, type RangeFilterProps } from '../../components/range-filter.tsx';
import { texts } from '../../texts/en/texts.ts';

/** The account is chosen for the whole console. */
const FILTERS = DIMENSION_NAMES.filter((name) => name !== 'account');
type Filter = (typeof FILTERS)[number];

export interface UsageFiltersProps {
  metric: Metric;
  group: Group;
  range: RangeFilterProps['range'];
  filters: Readonly<Record<Filter, string | undefined>>;
  nameOf(filter: Filter, value: string): string;
}

export function UsageFilters({ metric, group, range, filters, nameOf }: UsageFiltersProps) {
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
