import { isOperator } from '@baobab/core/domain/operations.ts';
import { changeSearch, useParameter, usePlace } from '../../address/router.ts';
import { useCatalog, useEngines, useModels } from '../../api/queries.ts';
import { useSession } from '../../api/session.ts';
import type { Engine, Model } from '../../api/types.ts';
import { Select } from '../../components/choices.tsx';
import { Badge, Empty } from '../../components/feedback.tsx';
import { SearchField } from '../../components/fields.tsx';
import { Listing } from '../../components/listing.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { Page } from '../../components/page.tsx';
import { Slug } from '../../components/slug.tsx';
import type { Column } from '../../components/table.tsx';
import { compact, full } from '../../format/numbers.ts';
import { date } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { LiveEngines } from '../engines/live-engines.tsx';
import { WeightsState } from '../engines/weights.tsx';
import { MODEL_STATUSES, ModelStatus, price, statusOf } from './model-parts.tsx';
import { ModelSheet } from './model-sheet.tsx';

/** Also what cannot be served here. */
const ALL = 'all';

const MODALITIES = ['chat', 'embedding', 'rerank', 'audio'];

export default function Models() {
  const session = useSession();
  const { search } = usePlace();
  const engines = useEngines();
  const [modality, setModality] = useParameter('modality');
  const [status, setStatus] = useParameter('status');
  const [region, setRegion] = useParameter('region');
  const [find, setFind] = useParameter('find');
  const opened = search.get('model');
  const openedSlug = opened?.split('@')[0];
  const served = useModels();
  const isMissing = opened !== null && served.data?.data.every(({ id }) => id !== openedSlug) === true;
  const showsCatalog = status === ALL || status === 'unavailable' || isMissing;
  const catalog = useCatalog(showsCatalog);
  const models = showsCatalog ? catalog : served;
  const all = models.data?.data ?? [];
  const regions = [...new Set(all.flatMap((model) => model.regions))].toSorted();
  const words = find.toLowerCase();
  const rows = all
    .toSorted((left, right) => left.id.localeCompare(right.id))
    .filter(
      (model) =>
        (modality === '' || model.modality === modality) &&
        (status === '' || status === ALL || model.status === status) &&
        (region === '' || model.regions.includes(region)) &&
        (words === '' ||
          `${model.id} ${model.description} ${model.languages.join(' ')} ${model.aliases.join(' ')}`
            .toLowerCase()
            .includes(words)),
    );
  const engineOf = (model: Model) =>
    engines.data?.data.find((engine) => engine.model === model.id && engine.version === model.version);
  const open = all.find(({ id }) => id === openedSlug);
  const { columns } = texts.models;

  return (
    <Page
      title={texts.models.title}
      about={texts.models.about}
      filters={
        <>
          <Filter
            label={columns.modality}
            any={texts.models.anyModality}
            values={MODALITIES}
            names={texts.modalities}
            value={modality}
            onValue={setModality}
          />
          <Filter
            label={columns.status}
            any={texts.models.anyStatus}
            values={[...MODEL_STATUSES, ALL]}
            names={{ ...texts.models.statuses, [ALL]: texts.models.catalog }}
            value={status}
            onValue={setStatus}
          />
          {regions.length > 1 && (
            <Filter
              label={columns.region}
              any={texts.models.anyRegion}
              values={regions}
              value={region}
              onValue={setRegion}
            />
          )}
          <SearchField label={texts.common.search} placeholder={texts.models.find} value={find} onValue={setFind} />
        </>
      }
    >
      <LiveEngines />
      <Listing
        query={models}
        rows={rows}
        label={texts.models.title}
        rowKey={({ id }) => id}
        selected={open?.id}
        onOpen={({ id }) => changeSearch({ model: id })}
        initialSort="status"
        columns={modelColumns({ engineOf: engines.data && engineOf, forOperators: isOperator(session) })}
        filters={{ modality: undefined, status: undefined, region: undefined, find: undefined }}
        empty={
          <Empty icon="models" title={texts.models.emptyTitle}>
            <p>{texts.models.emptyText}</p>
          </Empty>
        }
      />
      {opened !== null && models.data && !open && (
        <Sheet title={opened} onClose={() => changeSearch({ model: undefined })}>
          <Empty icon="models" title={texts.models.missing}>
            <p>{texts.models.missingText}</p>
          </Empty>
        </Sheet>
      )}
      {open && <ModelSheet model={open} engine={engineOf(open)} onClose={() => changeSearch({ model: undefined })} />}
    </Page>
  );
}

interface FilterProps {
  label: string;
  /** The choice that filters nothing. */
  any: string;
  values: string[];
  names?: Record<string, string>;
  value: string;
  onValue: (value: string) => void;
}

function Filter({ label, any, values, names = {}, value, onValue }: FilterProps) {
  const options = values.map((each) => ({ value: each, label: names[each] ?? each }));
  return (
    <Select inline label={label} options={[{ value: '', label: any }, ...options]} value={value} onValue={onValue} />
  );
}

const ORDER = ['ready', 'loading', 'unloading', 'cold', 'unavailable'];

interface ModelColumnsOptions {
  /** Undefined while engines load. */
  engineOf: ((model: Model) => Engine | undefined) | undefined;
  forOperators: boolean;
}

function modelColumns({ engineOf, forOperators }: ModelColumnsOptions): Column<Model>[] {
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
      cell: price('audio_per_minute'),
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
