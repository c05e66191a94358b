import { changeSearch, useParameter, usePlace } from '../../address/router.ts';
import { useEngines } from '../../api/queries.ts';
import type { Engine } from '../../api/types.ts';
import { optionsOf, Segments } from '../../components/choices.tsx';
import { Empty } from '../../components/feedback.tsx';
import { Listing } from '../../components/listing.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { Page } from '../../components/page.tsx';
import { Slug } from '../../components/slug.tsx';
import type { Column } from '../../components/table.tsx';
import { bytes, full } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';
import { EngineActions } from './engine-actions.tsx';
import { EngineFacts, EngineStatus, engineName, isBroken, speed } from './engine-facts.tsx';
import { LiveEngines } from './live-engines.tsx';
import { WeightsState } from './weights.tsx';

export default function Engines() {
  const engines = useEngines();
  const { search } = usePlace();
  const [show, setShow] = useParameter('show', 'all');
  const all = engines.data?.data ?? [];
  const rows = all.filter(
    (engine) =>
      show === 'all' ||
      (show === 'running'
        ? engine.processes > 0 || engine.status === 'loading' || engine.status === 'unloading'
        : isBroken(engine)),
  );
  const open = all.find((engine) => engineName(engine) === search.get('engine'));
  return (
    <Page
      title={texts.engines.title}
      about={texts.engines.about}
      filters={
        <Segments
          label={texts.engines.columns.status}
          options={optionsOf(texts.engines.show)}
          value={show}
          onValue={setShow}
        />
      }
    >
      <LiveEngines />
      <div class="stack">
        {engines.data && <EngineFigures engines={all} />}
        <Listing
          query={engines}
          rows={rows}
          label={texts.engines.title}
          rowKey={engineName}
          selected={open && engineName(open)}
          onOpen={(engine) => changeSearch({ engine: engineName(engine) })}
          initialSort="status"
          columns={engineColumns(all)}
          uncounted
          empty={
            <Empty icon="engines" title={texts.engines.emptyTitle}>
              <p>{texts.engines.emptyText}</p>
            </Empty>
          }
        />
      </div>
      {open && (
        <Sheet title={engineName(open)} onClose={() => changeSearch({ engine: undefined })}>
          <div class="stack">
            <EngineFacts engine={open} />
            <EngineActions engine={open} />
          </div>
        </Sheet>
      )}
    </Page>
  );
}

/** What is broken first, then what runs. */
const rank = (engine: Engine) =>
  isBroken(engine) ? 0 : 1 + ['loading', 'unloading', 'ready', 'cold', 'unavailable'].indexOf(engine.status);

function engineColumns(all: readonly Engine[]): Column<Engine>[] {
  const { columns } = texts.engines;
  const hasSeveral = (engine: Engine) => all.some((other) => other !== engine && other.model === engine.model);
  return [
    {
      id: 'model',
      label: columns.model,
      fill: true,
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
      cell: speed,
    },
    { id: 'actions', label: '', wide: true, cell: (engine) => <EngineActions engine={engine} small /> },
  ];
}

function EngineFigures({ engines: all }: { engines: readonly Engine[] }) {
  const { columns } = texts.engines;
  const sum = (value: (engine: Engine) => number) => all.reduce((total, engine) => total + value(engine), 0);
  const available = all.filter(({ status }) => status !== 'unavailable');
  const ready = available.filter(({ status }) => status === 'ready');
  const figures: [string, string, string][] = [
    [texts.engines.statuses.ready, full(ready.length), texts.engines.availableOf(full(available.length))],
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
