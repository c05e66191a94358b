import { changeSearch } from '../../address/router.ts';
import type { Engine, Model } from '../../api/types.ts';
import { Badge } from '../../components/feedback.tsx';
import { Slug } from '../../components/slug.tsx';
import type { Column } from '../../components/table.tsx';
import { compact, full, money } from '../../format/numbers.ts';
import { date } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { WeightsState } from '../engines/weights.tsx';
import { ModelStatus, price, statusOf } from './model-parts.tsx';

const ORDER = ['ready', 'loading', 'cold', 'unavailable'];

export interface ModelColumnsOptions {
  /** Undefined while engines load. */
  engineOf: ((model: Model) => Engine | undefined) | undefined;
  forOperators: boolean;
}

export function modelColumns({ engineOf, forOperators }: ModelColumnsOptions): Column<Model>[] {
  const { columns } = texts.models;
  const operatorColumns: Column<Model>[] = forOperators
    ? [
        {
          id: 'weights',
          label: columns.weights,
          extra: true,
          cell: (model) =>
            engineOf ? <EngineCell engine={engineOf(model)} /> : <span class="skeleton skeleton-line" />,
        },
      ]
    : [];
  return [
    {
      id: 'name',
      label: columns.model,
      sortBy: ({ id }) => id,
      cell: ({ id, description }) => (
        <button type="button" class="row-button" title={description} onClick={() => changeSearch({ model: id })}>
          <Slug slug={id} />
        </button>
      ),
    },
    {
      id: 'modality',
      label: columns.modality,
      wide: true,
      sortBy: (model) => model.modality,
      cell: (model) => texts.modalities[model.modality],
    },
    {
      id: 'status',
      label: columns.status,
      sortBy: (model) => ORDER.indexOf(statusOf({ model, engine: engineOf?.(model) })),
      cell: (model) => <ModelStatus model={model} engine={engineOf?.(model)} />,
    },
    ...operatorColumns,
    {
      id: 'context',
      label: columns.context,
      number: true,
      wide: true,
      sortBy: (model) => model.context_length,
      cell: (model) => <span title={full(model.context_length)}>{compact(model.context_length)}</span>,
    },
    {
      id: 'input',
      label: columns.input,
      number: true,
      wide: true,
      sortBy: (model) => model.pricing.prompt_per_million ?? 0,
      cell: price('prompt_per_million'),
    },
    {
      id: 'output',
      label: columns.output,
      number: true,
      wide: true,
      sortBy: (model) => model.pricing.completion_per_million ?? 0,
      cell: price('completion_per_million'),
    },
    {
      id: 'minute',
      label: columns.minute,
      number: true,
      extra: true,
      cell: ({ pricing }) => (pricing.audio_per_minute === null ? '–' : money(pricing.audio_per_minute)),
    },
    {
      id: 'deprecated',
      label: '',
      wide: true,
      cell: ({ deprecated_at: on }) =>
        on !== null && <Badge tone="warn">{texts.models.retires(date(on, 'UTC'))}</Badge>,
    },
  ];
}

function EngineCell({ engine }: { engine: Engine | undefined }) {
  if (!engine) return <span class="muted">–</span>;
  if (engine.weights === null && engine.upstreams.length === 0)
    return <span class="muted">{texts.engines.noUpstream}</span>;
  if (engine.weights === null) return <span class="muted">{texts.engines.upstreamsOf(engine.upstreams.length)}</span>;
  return <WeightsState weights={engine.weights} />;
}
