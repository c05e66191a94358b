import { Meter } from '../../components/feedback.tsx';
import { money, moneyExact } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';

export interface SpendCellProps {
  /** Undefined while it is not known. */
  /** Undefined: being read. Null: not known. */
  spend: number | null | undefined;
  budget: number | null;
}

/** What was spent this month, and the budget where there is room. */
export function SpendCell({ spend, budget }: SpendCellProps) {
  if (spend === undefined) return <span class="skeleton skeleton-line" />;
  if (spend === null) return '–';
  return (
    <span title={moneyExact(spend)}>
      {money(spend)}
      {budget !== null && <span class="muted wide-only"> / {money(budget)}</span>}
    </span>
  );
}

/** The same for a sheet, to the nano-dollar. */
export function Spend({ spend, budget }: { spend: number; budget: number | null }) {
  return (
    <span class="mono">
      {moneyExact(spend)}
      {budget !== null && ` ${texts.common.of} ${money(budget)}`}
    </span>
  );
}

export function BudgetMeter({ spend, budget }: { spend: number; budget: number | null }) {
  return budget === null ? null : <Meter share={budget > 0 ? spend / budget : 1} label={texts.keys.budget} />;
}
