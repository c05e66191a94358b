import type { Engine } from '../../api/types.ts';
import { bytes, full } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';
import { isBroken } from './engine-facts.tsx';

export function EngineFigures({ engines: all }: { engines: readonly Engine[] }) {
  const { columns } = texts.engines;
  const sum = (value: (engine: Engine) => number) => all.reduce((total, engine) => total + value(engine), 0);
  const figures: [string, string, string][] = [
    [
      texts.engines.loadedNow,
      full(all.filter(({ status }) => status === 'ready').length),
      `${texts.common.of} ${full(all.length)}`,
    ],
    [columns.memory, bytes(sum((engine) => engine.memory_bytes)), texts.engines.memoryHint],
    [texts.engines.running, full(sum((engine) => engine.in_flight)), texts.engines.runningHint],
    [texts.engines.queued, full(sum((engine) => engine.queue_depth)), texts.engines.queuedHint],
    [
      texts.engines.upstreams,
      full(sum((engine) => engine.upstreams.filter(({ healthy }) => healthy).length)),
      `${texts.common.of} ${full(sum((engine) => engine.upstreams.length))} ${texts.engines.healthy.toLowerCase()}`,
    ],
    [texts.engines.problems, full(all.filter(isBroken).length), texts.engines.problemsHint],
  ];
  return (
    <dl class="figures">
      {figures.map(([label, value, note]) => (
        <div key={label} class="figure">
          <dt>{label}</dt>
          <dd>{value}</dd>
          <dd class="figure-note">{note}</dd>
        </div>
      ))}
    </dl>
  );
}
