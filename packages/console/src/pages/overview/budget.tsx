import { MODALITIES } from '@baobab/core/domain/model.ts';
import { useNow } from '../../address/range.ts';
import { useOwnKey } from '../../api/queries.ts';
import type { AppliedLimits, OwnKey } from '../../api/types.ts';
import { Failure, Meter } from '../../components/feedback.tsx';
import { Card, Skeleton } from '../../components/page.tsx';
import { compact, money, moneyOfLimit } from '../../format/numbers.ts';
import { ago } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';

/** What is left of the budget and the limits of the key that signed in. */
export function Budget() {
  const key = useOwnKey();
  const { overview, common } = texts;
  if (key.isError && !key.data) return <Failure error={key.error} onRetry={() => void key.refetch()} />;
  if (!key.data) return <Skeleton height={290} />;
  const { limits } = key.data;
  const value = (count: number | null, from: AppliedLimits['chat']['rpm_from']) => (
    <>
      {count === null ? common.noLimit : compact(count)}
      {from !== null && <span class="muted small"> {overview.limitFrom[from]}</span>}
    </>
  );
  const rows = [
    ...MODALITIES.map((modality) => ({ name: texts.modalities[modality], ...limits[modality] })),
    ...limits.models.map(({ model, ...rates }) => ({ name: model, ...rates })),
  ];
  return (
    <Card title={overview.budget} aside={<span class="chart-zone">{key.data.name}</span>}>
      <div class="stack">
        <Spent ownKey={key.data} />
        <div>
          <h3>{overview.limits}</h3>
          <table class="table table-plain">
            <thead>
              <tr>
                <th scope="col">{overview.kind}</th>
                <th scope="col" class="number">
                  {texts.keys.rpm}
                </th>
                <th scope="col" class="number">
                  {texts.keys.tpm}
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map(({ name, rpm, rpm_from, tpm, tpm_from }) => (
                <tr key={name}>
                  <td>{name}</td>
                  <td class="number">{value(rpm, rpm_from)}</td>
                  <td class="number">{value(tpm, tpm_from)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
    </Card>
  );
}

/** Of the budget of the key, or of that of its account. */
function Spent({ ownKey: { budget } }: { ownKey: OwnKey }) {
  const now = useNow();
  const { overview } = texts;
  const { limit_usd: limit, spent_usd: spent, remaining_usd: left } = budget;
  if (limit === null || left === null) {
    return (
      <p class="muted">
        {money(spent)} {overview.spent} {overview.budgetNone}
      </p>
    );
  }
  return (
    <div class="stack-tight">
      <div class="spread">
        <span class="mono">{overview.budgetSpent(...moneyOfLimit(spent, limit))}</span>
        <span class="small muted">{overview.budgetLeft(money(left), ago(budget.resets_at, now))}</span>
      </div>
      <Meter share={limit === 0 ? 1 : spent / limit} label={overview.budget} />
      {budget.limit_from === 'account' && (
        <p class="small muted">{overview.budgetOfAccount(money(budget.spent_by_key_usd))}</p>
      )}
    </div>
  );
}
