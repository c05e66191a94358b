import { changeSearch } from '../../address/router.ts';
import { currentZone, exactTime } from '../../address/zone.ts';
import type { Key } from '../../api/types.ts';
import type { Column } from '../../components/table.tsx';
import { ago, date } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import type { MonthlySpend } from '../spend/monthly-spend.ts';
import { SpendCell } from '../spend/spend.tsx';
import { KeyModels, KeyRights, KeyStatus } from './key-parts.tsx';

export interface KeyColumnsOptions {
  /** This month, by key. Undefined while it loads. */
  spend: MonthlySpend | undefined;
  now: number;
  /** It was rotated, or is what replaced one: the spend is that of both. */
  isShared(key: Key): boolean;
  /** Keys of several accounts are shown. */
  withAccount: boolean;
  withStatus: boolean;
}

const ROUNDING_MS = 120_000;

/** The server notes the minute of a use, which may have begun before the key was made. */
export const usedAgo = (used: string, now: number): string =>
  now - Date.parse(used) < ROUNDING_MS ? texts.keys.usedRecently : ago(used, now);

export function keyColumns({ spend, now, isShared, withAccount, withStatus }: KeyColumnsOptions): Column<Key>[] {
  return [
    {
      id: 'name',
      label: texts.keys.columns.name,
      sortBy: ({ name }) => name.toLowerCase(),
      cell: (key) => (
        <>
          <button
            type="button"
            class="row-button row-name"
            title={key.name}
            onClick={() => changeSearch({ key: key.id })}
          >
            {key.name}
          </button>
          <span class="row-more mono">{key.prefix}…</span>
        </>
      ),
    },
    {
      id: 'key',
      label: texts.keys.columns.key,
      extra: true,
      cell: ({ prefix }) => <code class="muted">{prefix}…</code>,
    },
    ...(withAccount
      ? [
          {
            id: 'account',
            label: texts.keys.columns.account,
            wide: true,
            sortBy: (key: Key) => key.account_name ?? key.account_id,
            cell: (key: Key) => (
              <span class="truncate" dir="auto">
                {key.account_name ?? key.account_id}
              </span>
            ),
          },
        ]
      : []),
    {
      id: 'scopes',
      label: texts.keys.columns.scopes,
      wide: true,
      fill: true,
      cell: (key) => <KeyRights keyRecord={key} />,
    },
    { id: 'models', label: texts.keys.columns.models, extra: true, cell: (key) => <KeyModels keyRecord={key} /> },
    {
      id: 'spend',
      label: texts.keys.columns.spend,
      number: true,
      sortBy: (key) => spend?.get(key) ?? 0,
      cell: (key) => {
        const { monthly_budget_usd: budget, monthly_budget_from: from } = key.limits;
        return (
          <>
            <SpendCell spend={spend?.get(key)} budget={budget} isOfAccount={from === 'account'} />
            {isShared(key) && (
              <span class="muted" title={texts.keys.spendShared}>
                {' '}
                {texts.keys.shared}
              </span>
            )}
          </>
        );
      },
    },
    {
      id: 'used',
      label: texts.keys.columns.used,
      sortBy: ({ last_used_at }) => (last_used_at === null ? 0 : Date.parse(last_used_at)),
      cell: ({ last_used_at: used }) =>
        used === null ? (
          <span class="muted">{texts.common.never}</span>
        ) : (
          <span title={exactTime(used)}>{usedAgo(used, now)}</span>
        ),
    },
    {
      id: 'expires',
      label: texts.keys.columns.expires,
      extra: true,
      sortBy: ({ expires_at }) => (expires_at === null ? Number.POSITIVE_INFINITY : Date.parse(expires_at)),
      cell: ({ expires_at: expires }) =>
        expires === null ? (
          <span class="muted">{texts.common.never}</span>
        ) : (
          <span title={exactTime(expires)}>{date(expires, currentZone())}</span>
        ),
    },
    ...(withStatus
      ? [
          {
            id: 'status',
            label: texts.keys.columns.status,
            cell: (key: Key) => <KeyStatus keyRecord={key} now={now} />,
          },
        ]
      : []),
  ];
}
