import { href } from '../../address/router.ts';
import { useAccounts } from '../../api/queries.ts';
import { Meter } from '../../components/feedback.tsx';
import { Card, Skeleton } from '../../components/page.tsx';
import { money } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';
import { useMonthlySpend } from '../spend/monthly-spend.ts';

const MAX_ROWS = 6;

/** Which accounts are close to their budgets. */
export function AccountBudgets() {
  const accounts = useAccounts();
  const spend = useMonthlySpend('account');
  const { overview } = texts;
  if (!accounts.data || !spend) return <Skeleton height={290} />;
  const rows = accounts.data.data
    .flatMap(({ id, name, status, monthly_budget_usd: budget }) => {
      if (budget === null || status === 'deleted') return [];
      const spent = spend.get(id) ?? 0;
      return [{ id, name, budget, spent, share: budget > 0 ? spent / budget : 1 }];
    })
    .toSorted((left, right) => right.share - left.share);
  return (
    <Card title={overview.budgets} aside={<span class="chart-zone">{overview.budgetMonth}</span>}>
      {rows.length === 0 && (
        <p class="muted">
          {overview.budgetsNone} <a href={href('/accounts')}>{texts.nav.accounts}</a>
        </p>
      )}
      <ul class="stack">
        {rows.slice(0, MAX_ROWS).map(({ id, name, budget, spent, share }) => (
          <li key={id} class="stack-tight">
            <div class="spread">
              <a class="truncate" dir="auto" href={href('/accounts', { open: id })}>
                {name}
              </a>
              <span class="mono small">{overview.budgetSpent(money(spent), money(budget))}</span>
            </div>
            <Meter share={share} label={name} />
          </li>
        ))}
      </ul>
    </Card>
  );
}
