import type { Batch } from '../../api/types.ts';
import { Badge, type BadgeTone, Meter } from '../../components/feedback.tsx';
import { full } from '../../format/numbers.ts';
import { duration } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { labelOf } from '../../texts/label-of.ts';

const TONES: Record<string, BadgeTone> = {
  completed: 'good',
  failed: 'bad',
  expired: 'warn',
  in_progress: 'info',
  finalizing: 'info',
};

export const isRunning = ({ status }: Batch): boolean => ['validating', 'in_progress', 'finalizing'].includes(status);

const endedAt = ({ completed_at, failed_at, cancelled_at, expired_at }: Batch): number | undefined =>
  completed_at ?? failed_at ?? cancelled_at ?? expired_at ?? undefined;

/** How long a batch took, once it has ended. The API has whole seconds. */
export const took = (batch: Batch): string | undefined => {
  const end = endedAt(batch);
  if (end === undefined) return undefined;
  return end === batch.created_at ? texts.batches.underASecond : duration((end - batch.created_at) * 1000);
};

export function BatchStatus({ batch: { status } }: { batch: Batch }) {
  return <Badge tone={TONES[status] ?? 'plain'}>{labelOf(texts.batches.statuses, status)}</Badge>;
}

/** `withFailed`: where no column beside it has them. On phones there is none. */
export function BatchProgress({ batch, withFailed = false }: { batch: Batch; withFailed?: boolean }) {
  const { total, completed, failed } = batch.request_counts;
  const done = completed + failed;
  if (total === 0) return <span class="muted">–</span>;
  return (
    <div class="weights">
      <span class="small numbers">
        {texts.batches.counts(full(done), full(total))}
        {failed > 0 && (
          <span class={withFailed ? 'bad' : 'bad narrow-only'}>{texts.batches.ofThemFailed(full(failed))}</span>
        )}
      </span>
      <Meter
        progress
        failed={failed > 0 && failed === done}
        share={done / total}
        label={texts.batches.columns.progress}
      />
    </div>
  );
}
