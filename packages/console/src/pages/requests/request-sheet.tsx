import { MEASURE_NAMES, MEASURES } from '@baobab/core/domain/measures.ts';
import { href } from '../../address/router.ts';
import { useAccount, useRequest } from '../../api/queries.ts';
import type { RequestDetail, RequestEntry } from '../../api/types.ts';
import { CodeBlock, Copyable } from '../../components/copying.tsx';
import { type Detail, Details } from '../../components/details.tsx';
import { Badge, Failure } from '../../components/feedback.tsx';
import { StatusBadge } from '../../components/outcomes.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { Skeleton } from '../../components/page.tsx';
import { full } from '../../format/numbers.ts';
import { dateTime, duration } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { Amount } from '../spend/spend.tsx';

/** Shown where there are any. */
const OTHER_MEASURES = MEASURE_NAMES.map((name) => MEASURES[name]).filter(({ unit }) => unit !== 'tokens');

export interface RequestSheetProps {
  id: string;
  /** The row of the list, shown until the detail arrives. */
  known: RequestEntry | undefined;
  zone: string;
  onClose: () => void;
}

export function RequestSheet({ id, known, zone, onClose }: RequestSheetProps) {
  const detail = useRequest(id);
  const entry = detail.data ?? known;
  return (
    <Sheet title={texts.requests.detail} about={<Copyable text={id} />} onClose={onClose}>
      <div class="stack">
        {detail.isError && <Failure error={detail.error} onRetry={() => void detail.refetch()} />}
        {entry ? <Facts entry={entry} zone={zone} /> : !detail.isError && <Skeleton height={320} />}
        {detail.data && <Attempts entry={detail.data} />}
        {detail.data && <Text entry={detail.data} />}
      </div>
    </Sheet>
  );
}

function Facts({ entry, zone }: { entry: RequestEntry; zone: string }) {
  const account = useAccount(entry.account_id);
  const { requests, figures } = texts;
  const { columns } = requests;
  const why = entry.code === null ? undefined : requests.failures[entry.code];
  const rows: Detail[] = [
    [columns.status, <StatusBadge key="status" entry={entry} words />],
    !!entry.code && [requests.code, <code key="code">{entry.code}</code>],
    [columns.time, `${dateTime(entry.time, zone)} ${zone}`],
    [columns.endpoint, <code key="endpoint">{entry.endpoint}</code>],
    [
      columns.model,
      entry.model ? (
        <a key="model" href={href('/models', { model: entry.model })}>
          {entry.model}
          {entry.version && <span class="muted">@{entry.version}</span>}
        </a>
      ) : (
        '–'
      ),
    ],
    [
      columns.key,
      <a key="key" href={href('/keys', { key: entry.key, show: 'all' })}>
        {entry.key_name ?? entry.key}
      </a>,
    ],
    account !== undefined && [requests.account, account.name],
    [columns.region, entry.region ?? '–'],
    [columns.duration, duration(entry.duration_ms)],
    [columns.first, entry.first_token_ms === null ? '–' : duration(entry.first_token_ms)],
    [figures.prompt, full(entry.prompt_tokens)],
    [requests.cached, full(entry.cache_read_tokens)],
    [figures.completion, full(entry.completion_tokens)],
    ...OTHER_MEASURES.map(
      ({ wireName, short, unit }) =>
        entry[wireName] > 0 && ([figures[short], `${full(entry[wireName])}${unit === 'seconds' ? ' s' : ''}`] as const),
    ),
    [columns.cost, <Amount key="cost" usd={entry.cost_usd} />],
  ];
  return (
    <>
      {(entry.message ?? why) && (
        <div class={entry.status >= 500 ? 'notice notice-bad' : 'notice notice-warn'} dir="auto">
          <span class="strong">{requests.why}.</span> {entry.message ?? why}
        </div>
      )}
      {entry.replayed && <Badge tone="info">{requests.replayed}</Badge>}
      <Details rows={rows} />
    </>
  );
}

function Attempts({ entry: { attempts, status, completion_tokens, replayed } }: { entry: RequestDetail }) {
  const { requests } = texts;
  const refused = status >= 400 && status < 499 && completion_tokens === 0;
  const none = refused ? requests.attemptsRefused : requests.attemptsNone;
  return (
    <section class="stack-tight">
      <h3>{requests.attempts}</h3>
      {attempts.length === 0 && <p class="muted small">{replayed ? requests.attemptsReplayed : none}</p>}
      <ol class="stack-tight">
        {attempts.map((attempt, index) => (
          <li key={index} class="attempt">
            <div class="spread">
              {/* Members see the region of an upstream, not its address. */}
              <span class="mono">{attempt.upstream ?? attempt.region}</span>
              <span class="row">
                <span class="mono small">{duration(attempt.duration_ms)}</span>
                <Badge tone={attempt.outcome === 'ok' ? 'good' : 'bad'}>{attempt.outcome}</Badge>
              </span>
            </div>
            <div class="small muted">
              {[attempt.upstream && attempt.region, attempt.detail].filter(Boolean).join(' · ')}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** A prompt is kept as it was sent. */
function readable(prompt: string): string {
  try {
    return JSON.stringify(JSON.parse(prompt), null, 2);
  } catch {
    // Cut off.
    return prompt;
  }
}

function Text({ entry: { text, text_unavailable } }: { entry: RequestDetail }) {
  const { requests } = texts;
  if (text === null) return <p class="muted small">{requests.textUnavailable[text_unavailable ?? 'not_kept']}</p>;
  return (
    <section class="stack-tight">
      <h3>{requests.text}</h3>
      {text.truncated && <p class="muted small">{requests.truncated}</p>}
      <CodeBlock
        head={<span class="small muted">{requests.prompt}</span>}
        code={text.prompt === null ? requests.noText : readable(text.prompt)}
      />
      <CodeBlock head={<span class="small muted">{requests.answer}</span>} code={text.answer ?? requests.noText} />
    </section>
  );
}
