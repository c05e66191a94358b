import { changeSearch } from '../../address/router.ts';
import type { Engine } from '../../api/types.ts';
import { Slug } from '../../components/slug.tsx';
import type { Column } from '../../components/table.tsx';
import { bytes, full } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';
import { EngineActions } from './engine-actions.tsx';
import { EngineStatus, engineName, isBroken, speed } from './engine-facts.tsx';
import { WeightsState } from './weights.tsx';

/** What is broken first, then what runs. */
const rank = (engine: Engine) =>
  isBroken(engine) ? 0 : 1 + ['loading', 'ready', 'cold', 'unavailable'].indexOf(engine.status);

export function engineColumns(all: readonly Engine[]): Column<Engine>[] {
  const { columns } = texts.engines;
  const hasSeveral = (engine: Engine) => all.some((other) => other !== engine && other.model === engine.model);
  return [
    {
      id: 'model',
      label: columns.model,
      sortBy: engineName,
      cell: (engine) => (
        <button
          type="button"
          class="row-button narrow-version"
          onClick={() => changeSearch({ engine: engineName(engine) })}
        >
          <Slug slug={engine.model} version={engine.version} several={hasSeveral(engine)} />
        </button>
      ),
    },
    {
      id: 'status',
      label: columns.status,
      sortBy: rank,
      cell: (engine) => <EngineStatus engine={engine} />,
    },
    {
      id: 'driver',
      label: columns.driver,
      spare: true,
      sortBy: ({ driver }) => driver,
      cell: ({ driver }) => driver,
    },
    {
      id: 'weights',
      label: columns.weights,
      extra: true,
      cell: ({ weights, upstreams }) => {
        if (weights) return <WeightsState weights={weights} />;
        if (upstreams.length > 0) return texts.engines.upstreamsOf(upstreams.length);
        return <span class="muted">{texts.engines.noUpstream}</span>;
      },
    },
    {
      id: 'memory',
      label: columns.memory,
      number: true,
      sortBy: (engine) => engine.memory_bytes,
      cell: (engine) => (engine.memory_bytes > 0 ? bytes(engine.memory_bytes) : '–'),
    },
    {
      id: 'queue',
      label: columns.queue,
      number: true,
      wide: true,
      sortBy: (engine) => engine.queue_depth + engine.in_flight,
      cell: (engine) => `${full(engine.in_flight)} / ${full(engine.queue_depth)}`,
    },
    {
      id: 'speed',
      label: columns.speed,
      number: true,
      extra: true,
      sortBy: (engine) => engine.tokens_per_second.output,
      cell: (engine) => (engine.processes > 0 || engine.upstreams.length > 0 ? speed(engine) : '–'),
    },
    { id: 'actions', label: '', wide: true, cell: (engine) => <EngineActions engine={engine} small /> },
  ];
}
