import type { Engine } from '../../api/types.ts';
import { Meter } from '../../components/feedback.tsx';
import { bytes, percent } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';

type Weights = NonNullable<Engine['weights']>;

/** Whether the weights are on disk, with progress while they are fetched. */
export function WeightsState({ weights }: { weights: Weights }) {
  const { status, bytes_on_disk: have, total_bytes: total, reason } = weights;
  if (status === 'pulling') {
    const share = total ? have / total : 0;
    return (
      <div class="weights">
        <span class="small numbers">
          {bytes(have)}
          {total !== null && ` ${texts.common.of} ${bytes(total)}, ${percent(share)}`}
        </span>
        <Meter progress share={share} label={texts.engines.weights.pulling ?? ''} />
      </div>
    );
  }
  if (status === 'present') return <span class="numbers">{bytes(have)}</span>;
  return (
    <span class="muted" title={reason ?? undefined}>
      {texts.engines.weights[status]}
    </span>
  );
}
