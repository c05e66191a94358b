import { changeSearch } from '../../address/router.ts';
import { useAccount, useAccounts } from '../../api/queries.ts';
import type { RequestEntry } from '../../api/types.ts';
import { StatusBadge } from '../../components/outcomes.tsx';
import { Slug } from '../../components/slug.tsx';
import type { Column } from '../../components/table.tsx';
import { compact, full, money, moneyExact } from '../../format/numbers.ts';
import { audioLength, dateTime, duration, shortTime } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';

const { columns } = texts.requests;

/** Their requests are measured in seconds. */
const AUDIO = '/v1/audio/';

export interface RequestColumnsOptions {
  zone: string;
  /** Requests of several accounts are shown. */
  withAccount: boolean;
}

export function requestColumns({ zone, withAccount }: RequestColumnsOptions): Column<RequestEntry>[] {
  const account: Column<RequestEntry> = {
    id: 'account',
    label: texts.requests.account,
    wide: true,
    cell: ({ account_id: id }) => <AccountName id={id} />,
  };
  return [
    {
      id: 'time',
      label: `${columns.time} (${zone})`,
      cell: ({ id, time }) => (
        <button
          type="button"
          class="row-button numbers"
          title={dateTime(time, zone)}
          onClick={() => changeSearch({ request: id })}
        >
          {shortTime(time, zone)}
        </button>
      ),
    },
    { id: 'status', label: columns.status, card: 'badge', cell: (entry) => <StatusBadge entry={entry} /> },
    {
      id: 'model',
      label: columns.model,
      card: 'title',
      fill: true,
      cell: ({ model, endpoint }) => (
        <span class="truncate narrow-slug" title={model ?? endpoint}>
          {model === null ? <span class="muted">{endpoint}</span> : <Slug slug={model} />}
        </span>
      ),
    },
    {
      id: 'key',
      label: columns.key,
      wide: true,
      cell: ({ key, key_name }) => (
        <span class="truncate" dir="auto" title={key}>
          {key_name ?? key}
        </span>
      ),
    },
    ...(withAccount ? [account] : []),
    {
      id: 'tokens',
      label: columns.tokens,
      number: true,
      wide: true,
      cell: ({ endpoint, prompt_tokens: prompt, completion_tokens: completion, audio_seconds: audio }) => (
        <span title={`${full(prompt)} / ${full(completion)}`}>
          {endpoint.startsWith(AUDIO) ? audioLength(audio) : `${compact(prompt)} / ${compact(completion)}`}
        </span>
      ),
    },
    {
      id: 'cost',
      label: columns.cost,
      number: true,
      cell: ({ cost_usd: cost }) => <span title={moneyExact(cost)}>{money(cost)}</span>,
    },
    { id: 'duration', label: columns.duration, number: true, cell: ({ duration_ms: ms }) => duration(ms) },
    {
      id: 'first',
      label: columns.first,
      number: true,
      extra: true,
      cell: ({ first_token_ms: ms }) => (ms === null ? '–' : duration(ms)),
    },
    { id: 'region', label: columns.region, extra: true, cell: ({ region }) => region ?? '–' },
    {
      id: 'id',
      label: columns.id,
      extra: true,
      cell: ({ id }) => (
        <code class="muted" title={id}>
          …{id.slice(-6)}
        </code>
      ),
    },
  ];
}

function AccountName({ id }: { id: string }) {
  const { data: newest } = useAccounts();
  // Only those that the list leaves out are asked for one by one.
  const account = useAccount(
    newest && id,
    newest?.data.find((each) => each.id === id),
  );
  return (
    <span class="truncate" dir="auto" title={id}>
      {account?.name ?? id}
    </span>
  );
}
