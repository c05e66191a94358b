import { useNow } from '../../address/range.ts';
import { useOwnKey } from '../../api/queries.ts';
import { Failure, Meter } from '../../components/feedback.tsx';
import { Card, Skeleton } from '../../components/page.tsx';
import { compact, money } from '../../format/numbers.ts';
import { ago } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';

/** What is left of the budget and the limits of the key that signed in. */
export function Budget() {
  const key = useOwnKey();
  const now = useNow();
  const { overview, common } = texts;
  if (key.isError && !key.data) return <Failure error={key.error} />;
  if (!key.data) return <Skeleton height={290} />;
  const { budget, limits } = key.data;
  const limit = budget.limit_usd ?? (budget.remaining_usd === null ? null : budget.spent_usd + budget.remaining_usd);
  const share = limit ? budget.spent_usd / limit : 0;
  const value = (count: number | null) => (count === null ? common.noLimit : compact(count));
  const rows = (['chat', 'embedding', 'rerank', 'audio'] as const).map((modality) => ({
    modality,
    ...limits[modality],
  }));
  return (
    <Card title={overview.budget} aside={<span class="chart-zone">{key.data.name}</span>}>
      <div class="stack">
        {limit === null ? (
          <p class="muted">
            {money(budget.spent_usd)} {overview.spent} {overview.budgetNone}
          </p>
        ) : (
          <div class="stack-tight">
            <div class="spread">
              <span class="mono">{overview.budgetSpent(money(budget.spent_usd), money(limit))}</span>
              <span class="small muted">
                {overview.budgetLeft(money(budget.remaining_usd ?? 0), ago(budget.resets_at, now))}
              </span>
            </div>
            <Meter share={share} label={overview.budget} />
          </div>
        )}
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
              {rows.map(({ modality, rpm, tpm }) => (
                <tr key={modality}>
                  <td>{texts.modalities[modality]}</td>
                  <td class="number">{value(rpm)}</td>
                  <td class="number">{value(tpm)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
    </Card>
  );
}
