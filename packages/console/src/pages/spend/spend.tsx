import { Meter } from '../../components/feedback.tsx';
import { money, moneyExact, moneyOfLimit } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';

interface Budget {
  /** Of the account or key whose spend is shown, or of the account that the key belongs to. */
  budget: number | null;
  isOfAccount?: boolean;
}

export interface SpendCellProps extends Budget {
  /** Undefined: being read. Null: not known. */
  spend: number | null | undefined;
}

/** What was spent this month, and the budget where there is room. That of an account is not set against what one of its keys has spent. */
export function SpendCell({ spend, budget, isOfAccount = false }: SpendCellProps) {
  if (spend === undefined) return <span class="skeleton skeleton-line" />;
  if (spend === null) return '–';
  const [spent, limit] = budget === null ? [money(spend)] : moneyOfLimit(spend, budget);
  return (
    <span title={moneyExact(spend)}>
      {spent}
      {limit !== undefined && (
        <span class="muted wide-only">{isOfAccount ? ` · ${texts.keys.budgetOfAccount(limit)}` : ` / ${limit}`}</span>
      )}
    </span>
  );
}

/** To the nano-dollar. It moves to the next line as a whole. */
export const Amount = ({ usd }: { usd: number }) => <span class="amount">{moneyExact(usd)}</span>;

/** The same for a sheet. */
export function Spend({ spend, budget, isOfAccount = false }: Budget & { spend: number }) {
  return (
    <span class="mono">
      <Amount usd={spend} />
      {budget !== null &&
        (isOfAccount
          ? ` · ${texts.keys.budgetOfAccount(moneyExact(budget))}`
          : ` ${texts.common.of} ${moneyExact(budget)}`)}
    </span>
  );
}

export function BudgetMeter({ spend, budget }: { spend: number; budget: number | null }) {
  return budget === null ? null : <Meter share={budget > 0 ? spend / budget : 1} label={texts.keys.budget} />;
}
