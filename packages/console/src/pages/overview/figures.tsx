import type { PerformanceFigures, UsageFigures } from '../../api/types.ts';
import { compact, full, money, moneyExact, percent } from '../../format/numbers.ts';
import { duration } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';

export interface FiguresProps {
  usage: UsageFigures | undefined;
  performance: PerformanceFigures | undefined;
  /** Of one kind of model. Null: it could not be read. */
  latency: PerformanceFigures | null | undefined;
  kind: string | undefined;
}

/** The totals of the chosen time. */
export function Figures({ usage, performance, latency: served, kind }: FiguresProps) {
  const requests = performance?.requests;
  const errors = performance && performance.server_errors + performance.client_errors + performance.limited;
  const tokens = usage && usage.prompt_tokens + usage.completion_tokens;
  const latency = served?.latency_ms;
  const first = served?.first_token_ms;
  const median = kind === undefined ? texts.figures.median : `${kind.toLowerCase()}, ${texts.figures.median}`;
  const { figures } = texts;
  return (
    <dl class="figures">
      <Figure
        label={figures.requests}
        value={requests}
        format={compact}
        exact={full}
        note={usage && figures.withUsage(full(usage.requests))}
      />
      <Figure
        label={figures.tokens}
        value={tokens}
        format={compact}
        exact={full}
        note={usage && figures.tokenDetail(compact(usage.prompt_tokens), compact(usage.completion_tokens))}
      />
      <Figure
        label={figures.spend}
        value={usage?.cost_usd}
        format={money}
        exact={moneyExact}
        note={usage && requests ? figures.average(money(usage.cost_usd / Math.max(1, usage.requests))) : undefined}
      />
      <Figure
        label={figures.errors}
        value={errors}
        format={compact}
        exact={full}
        note={
          performance &&
          figures.errorDetail(percent((errors ?? 0) / Math.max(1, performance.requests)), performance.server_errors)
        }
        bad={(performance?.server_errors ?? 0) > 0}
      />
      <Figure
        label={`${figures.latency}, ${median}`}
        value={served === undefined ? undefined : (latency?.p50 ?? null)}
        format={duration}
        exact={(ms) => figures.accuracy(duration(ms))}
        note={latency ? `p90 ${duration(latency.p90)} · p99 ${duration(latency.p99)}` : undefined}
      />
      <Figure
        label={`${figures.firstToken}, ${median}`}
        value={served === undefined ? undefined : (first?.p50 ?? null)}
        format={duration}
        exact={(ms) => figures.accuracy(duration(ms))}
        note={first ? `p90 ${duration(first.p90)} · p99 ${duration(first.p99)}` : undefined}
      />
    </dl>
  );
}

interface FigureProps {
  label: string;
  /** Undefined while it loads, null without a value. */
  value: number | null | undefined;
  format: (value: number) => string;
  exact: (value: number) => string;
  note?: string | undefined;
  bad?: boolean;
}

function Figure({ label, value, format, exact, note, bad }: FigureProps) {
  return (
    <div class="figure">
      <dt>{label}</dt>
      {value === undefined ? (
        <dd>
          <span class="skeleton skeleton-line" />
        </dd>
      ) : (
        <dd title={value === null ? undefined : exact(value)} class={bad ? 'bad' : undefined}>
          {value === null ? '–' : format(value)}
        </dd>
      )}
      <dd class="figure-note">{note ?? ' '}</dd>
    </div>
  );
}
