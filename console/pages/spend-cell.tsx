import { money, moneyExact } from '../format/numbers.ts';

export interface SpendCellProps {
  /** Undefined while it is not known. */
  spend: number | undefined;
  budget: number | null;
}

/** What was spent this month, and the budget where there is room. */
export function SpendCell({ spend, budget }: SpendCellProps) {
  if (spend === undefined) return <span class="skeleton skeleton-line" />;
  return (
    <span title={moneyExact(spend)}>
      {money(spend)}
      {budget !== null && <span class="muted wide-only"> / {money(budget)}</span>}
    </span>
  );
}
