import { may } from '@baobab/core/domain/operations.ts';
import { keptSearch, type Range, useRange } from '../../address/range.ts';
import { href, useParameter, usePlace } from '../../address/router.ts';
import { useLastEvent } from '../../api/events.ts';
import { useBudgets, useCatalog, usePerformance, useUsage } from '../../api/queries.ts';
import { ALL_ACCOUNTS, useAccountFilter, useSession } from '../../api/session.ts';
import type { Account, Key, Modality, Model, UsageReport } from '../../api/types.ts';
import { type Group, groupTotals, OTHERS } from '../../charts/grouping.ts';
import { Select } from '../../components/choices.tsx';
import { Badge, Failure, Meter } from '../../components/feedback.tsx';
import { Loaded, type LoadedProps } from '../../components/listing.tsx';
import { Card, Page, Skeleton } from '../../components/page.tsx';
import { RangeFilter } from '../../components/range-filter.tsx';
import { full, money, moneyExact, moneyOfLimit } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';
import { FirstRequest } from '../first-request/first-request.tsx';
import { keyState } from '../keys/key-parts.tsx';
import { type MonthlySpend, useMonthlySpend } from '../spend/monthly-spend.ts';
import { Budget } from './budget.tsx';
import { Charts } from './charts.tsx';
import { Figures } from './figures.tsx';

/** On the first day, a week would be six empty days. */
function useFittingRange(): { range: Range; isKnown: boolean } {
  const { search } = usePlace();
  const isChosen = search.has('range') || search.has('from');
  const [week, day] = [useRange('7d'), useRange('24h')];
  const days = useUsage(week, 'day', { groupBy: '' }, { enabled: !isChosen });
  const first = days.data?.buckets[0];
  const isNew = !isChosen && first !== undefined && Date.parse(first.end) > day.fromMs;
  return { range: isNew ? day : week, isKnown: isChosen || !days.isPending };
}

/** The kinds of models that were used, the most used first. */
function kindsOf(usage: UsageReport | undefined, models: readonly Model[] | undefined): Modality[] {
  if (usage === undefined || models === undefined) return [];
  const kinds = new Map(models.map(({ id, modality }) => [id, modality]));
  const requests = new Map<Modality, number>();
  for (const { id, requests: count } of groupTotals(usage.buckets, 'model')) {
    const kind = kinds.get(id);
    if (kind !== undefined) requests.set(kind, (requests.get(kind) ?? 0) + count);
  }
  return [...requests].toSorted(([, left], [, right]) => right - left).map(([kind]) => kind);
}

export default function Overview() {
  const { range, isKnown } = useFittingRange();
  const account = useAccountFilter();
  const byModel = useUsage(range, range.bucket, { groupBy: 'model' }, { enabled: isKnown });
  const byKey = useUsage(range, 'month', { groupBy: 'key' }, { enabled: isKnown });
  const byAccount = useUsage(range, 'month', { groupBy: 'account' }, { enabled: isKnown && account === ALL_ACCOUNTS });
  const performance = usePerformance(range, range.bucket, { enabled: isKnown });
  const models = useCatalog(may(useSession(), 'models.list'));
  const usage = byModel.data;
  const kinds = kindsOf(usage, models.data?.data);
  const [asked, setKind] = useParameter('kind');
  const kind = kinds.find((each) => each === asked) ?? kinds[0];
  const ofKind = usePerformance(range, range.bucket, { modality: kind, enabled: kind !== undefined });
  const latency = kind === undefined ? performance.data : ofKind.data;
  const latencyFailed = latency === undefined && ofKind.isError;
  const failed = byModel.error ?? performance.error;
  const empty = usage && performance.data && usage.totals.requests === 0 && performance.data.totals.requests === 0;
  return (
    <Page
      title={texts.overview.title}
      about={texts.overview.about}
      action={<Live />}
      filters={
        <>
          <RangeFilter range={range} />
          {kinds.length > 1 && (
            <Select
              inline
              label={texts.overview.latencyOf}
              options={kinds.map((each) => ({
                value: each,
                label: `${texts.overview.latencyOf} ${texts.modalities[each].toLowerCase()}`,
              }))}
              value={kind ?? ''}
              onValue={(value) => setKind(value === kinds[0] ? undefined : value)}
            />
          )}
        </>
      }
    >
      {failed && !(usage && performance.data) ? (
        <Failure error={failed} onRetry={() => retry(byModel, performance)} />
      ) : (
        <div class="stack">
          <Figures
            usage={usage?.totals}
            performance={performance.data?.totals}
            latency={latencyFailed ? null : latency?.totals}
            kind={kind && texts.modalities[kind]}
          />
          {empty && <FirstRequest title={texts.overview.emptyTitle} text={texts.overview.emptyText} />}
          {!empty && (
            <>
              {performance.data && usage && (latency || latencyFailed) ? (
                <div class="grid-2">
                  <Charts
                    range={range}
                    usage={usage}
                    performance={performance.data}
                    latency={latency && { report: latency, modality: kind }}
                  />
                  {latencyFailed && <Failure error={ofKind.error} onRetry={() => retry(ofKind)} />}
                  {account === undefined ? <Budget /> : <Budgets />}
                </div>
              ) : (
                <div class="grid-2">
                  <Skeleton height={290} />
                  <Skeleton height={290} />
                </div>
              )}
              <div class="grid-3">
                <Ranking title={texts.overview.topModels} query={byModel} group="model" />
                <Ranking title={texts.overview.topKeys} query={byKey} group="key" />
                {account === ALL_ACCOUNTS && (
                  <Ranking title={texts.overview.topAccounts} query={byAccount} group="account" />
                )}
              </div>
            </>
          )}
        </div>
      )}
    </Page>
  );
}

function Live() {
  const counters = useLastEvent('counters');
  if (!counters) return null;
  return (
    <Badge tone="good">
      <span class="dot dot-good" />
      <span class="numbers">{texts.overview.liveNow(counters.in_flight, counters.last_minute.requests)}</span>
    </Badge>
  );
}

const MAX_ROWS = 6;

function retry(...queries: { refetch(): Promise<unknown> }[]): void {
  for (const query of queries) void query.refetch();
}

/** Which accounts and keys are close to their budgets. */
function Budgets() {
  const account = useAccountFilter();
  const accounts = useBudgets<Account>('/v1/admin/accounts');
  const keys = useBudgets<Key>('/v1/admin/keys');
  const [accountSpend, keySpend] = [useMonthlySpend('account'), useMonthlySpend('key')];
  const { overview } = texts;
  const failed = [accounts, keys].filter((query) => query.isError && !query.data);
  const unread = [...failed, ...[accountSpend?.failed, keySpend?.failed].filter((query) => query !== undefined)];
  if (unread[0]) return <Failure error={unread[0].error} onRetry={() => retry(...unread)} />;
  if (!accounts.data || !keys.data || !accountSpend || !keySpend) return <Skeleton height={290} />;
  const now = Date.now();
  const entry = (owner: Account | Key, spend: MonthlySpend, more: { to: string; kind: string }) => {
    const { id, name, monthly_budget_usd } = owner;
    const budget = monthly_budget_usd ?? 0;
    const spent = spend.get(owner) ?? 0;
    return { id, name, budget, spent, share: budget > 0 ? spent / budget : 1, ...more };
  };
  const rows = [
    ...accounts.data.data
      .filter(({ id, status }) => status !== 'deleted' && (account === ALL_ACCOUNTS || id === account))
      .map((each) =>
        entry(each, accountSpend, {
          to: href('/accounts', { open: each.id }),
          kind: texts.usage.groups.account.toLowerCase(),
        }),
      ),
    ...keys.data.data
      .filter((key) => keyState(key, now) === 'active' && key.limits.monthly_budget_from === 'key')
      .map((key) =>
        entry(key, keySpend, {
          to: href('/keys', { key: key.id, show: 'all' }),
          // Keys may have the same name.
          kind: `${texts.usage.groups.key.toLowerCase()} ${key.prefix}…`,
        }),
      ),
  ].toSorted((left, right) => right.share - left.share);
  return (
    <Card title={overview.budgets} aside={<span class="chart-zone">{overview.budgetMonth}</span>}>
      {rows.length === 0 && (
        <p class="muted">
          {overview.budgetsNone} <a href={href('/accounts')}>{texts.nav.accounts}</a>
        </p>
      )}
      <ul class="stack">
        {rows.slice(0, MAX_ROWS).map(({ id, name, kind, to, budget, spent, share }) => (
          <li key={id} class="stack-tight">
            <div class="spread">
              <span class="truncate">
                <a dir="auto" href={to}>
                  {name}
                </a>{' '}
                <span class="muted small">{kind}</span>
              </span>
              <span class="mono small">{overview.budgetSpent(...moneyOfLimit(spent, budget))}</span>
            </div>
            <Meter share={share} label={name} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

interface RankingProps {
  title: string;
  query: LoadedProps<UsageReport>['query'];
  group: Group;
}

/** The most expensive groups, each a link to its usage. */
const Ranking = ({ title, query, group }: RankingProps) => (
  <Card title={title}>
    <Loaded query={query} skeleton={<Skeleton height={180} />}>
      {(usage) => <Ranked usage={usage} group={group} />}
    </Loaded>
  </Card>
);

function Ranked({ usage, group }: { usage: UsageReport; group: Group }) {
  const { search } = usePlace();
  const kept = keptSearch(search);
  const rows = groupTotals(usage.buckets, group)
    .filter(({ id }) => id !== OTHERS)
    .toSorted((left, right) => right.cost_usd - left.cost_usd || right.requests - left.requests);
  const top = rows[0]?.cost_usd ?? 0;
  return (
    <>
      {rows.length === 0 && <p class="muted small">{texts.usage.empty}</p>}
      <ul class="ranking">
        {rows.slice(0, MAX_ROWS).map(({ id, label, cost_usd, requests }) => (
          <li key={id}>
            <a
              class="ranking-row"
              href={href('/usage', { ...kept, [group]: id, group: group === 'model' ? 'key' : 'model' })}
              title={`${label}: ${moneyExact(cost_usd)}, ${full(requests)} ${texts.figures.requests.toLowerCase()}`}
            >
              <span class="ranking-bar" style={{ width: `${top > 0 ? (cost_usd / top) * 100 : 0}%` }} />
              <span class="truncate">{label}</span>
              <span class="mono">{money(cost_usd)}</span>
            </a>
          </li>
        ))}
      </ul>
      {rows.length > MAX_ROWS && (
        <a class="small" href={href('/usage', { ...kept, group })}>
          {texts.usage.tooMany(rows.length - MAX_ROWS)}
        </a>
      )}
    </>
  );
}
