import { useEngines, useModels } from '../../api/queries.ts';
import type { Engine, Model } from '../../api/types.ts';
import { changeSearch, useParameter, usePlace } from '../../app/router.ts';
import { may, useSession } from '../../app/session.ts';
import { Button, Select } from '../../components/controls.tsx';
import { Badge, Empty, Failure } from '../../components/feedback.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { Page } from '../../components/page.tsx';
import { Slug } from '../../components/slug.tsx';
import { type Column, Table, TableSkeleton } from '../../components/table.tsx';
import { compact, full, money } from '../../format/numbers.ts';
import { date } from '../../format/times.ts';
import { texts } from '../../texts/en.ts';
import { LiveEngines } from '../engines/live-engines.tsx';
import { WeightsState } from '../engines/weights.tsx';
import { ModelStatus, price } from './model-parts.tsx';
import { ModelSheet } from './model-sheet.tsx';

const MODALITIES = ['chat', 'embedding', 'rerank', 'audio'];
const STATUSES = ['ready', 'cold', 'unavailable'];

export default function Models() {
  const session = useSession();
  const { search } = usePlace();
  const models = useModels();
  const engines = useEngines();
  const [modality, setModality] = useParameter('modality');
  const [status, setStatus] = useParameter('status');
  const [region, setRegion] = useParameter('region');
  const [find, setFind] = useParameter('find');
  const all = models.data?.data ?? [];
  const regions = [...new Set(all.flatMap((model) => model.regions))].toSorted();
  const words = find.toLowerCase();
  const rows = all
    .toSorted((left, right) => left.id.localeCompare(right.id))
    .filter(
      (model) =>
        (modality === '' || model.modality === modality) &&
        (status === '' || model.status === status) &&
        (region === '' || model.regions.includes(region)) &&
        (words === '' ||
          `${model.id} ${model.description} ${model.languages.join(' ')} ${model.aliases.join(' ')}`
            .toLowerCase()
            .includes(words)),
    );
  const engineOf = (model: Model) =>
    engines.data?.data.find((engine) => engine.model === model.id && engine.version === model.version);
  const opened = search.get('model');
  const open = opened === null ? undefined : all.find(({ id }) => id === opened.split('@')[0]);
  const filter = (
    label: string,
    any: string,
    values: string[],
    value: string,
    set: (value: string) => void,
    names: Record<string, string> = {},
  ) => (
    <Select
      inline
      label={label}
      options={[{ value: '', label: any }, ...values.map((each) => ({ value: each, label: names[each] ?? each }))]}
      value={value}
      onValue={set}
    />
  );
  const { columns } = texts.models;
  const operatorColumns: Column<Model>[] = may(session, 'admin')
    ? [
        {
          id: 'weights',
          label: columns.weights,
          extra: true,
          cell: (model) =>
            engines.data ? <EngineCell engine={engineOf(model)} /> : <span class="skeleton skeleton-line" />,
        },
      ]
    : [];

  return (
    <Page
      title={texts.models.title}
      about={texts.models.about}
      filters={
        <>
          {filter(columns.modality, texts.models.anyModality, MODALITIES, modality, setModality, texts.modalities)}
          {filter(columns.status, texts.models.anyStatus, STATUSES, status, setStatus, texts.models.statuses)}
          {regions.length > 1 && filter(columns.region, texts.models.anyRegion, regions, region, setRegion)}
          <input
            class="input input-find"
            type="search"
            aria-label={texts.common.search}
            placeholder={texts.models.find}
            value={find}
            onInput={(event) => setFind(event.currentTarget.value)}
          />
        </>
      }
    >
      <LiveEngines />
      {models.isError && !models.data && <Failure error={models.error} onRetry={() => void models.refetch()} />}
      {models.isPending && <TableSkeleton rows={10} />}
      {models.data && rows.length === 0 && (
        <Empty
          icon="models"
          title={all.length === 0 ? texts.models.emptyTitle : texts.common.noMatch}
          action={
            all.length > 0 && (
              <Button
                onClick={() =>
                  changeSearch({ modality: undefined, status: undefined, region: undefined, find: undefined })
                }
              >
                {texts.common.clearFilters}
              </Button>
            )
          }
        >
          {all.length === 0 && <p>{texts.models.emptyText}</p>}
        </Empty>
      )}
      {rows.length > 0 && (
        <Table
          label={texts.models.title}
          rows={rows}
          rowKey={({ id }) => id}
          selected={open?.id}
          onOpen={({ id }) => changeSearch({ model: id })}
          initialSort="status"
          foot={texts.common.count(full(rows.length))}
          columns={[
            {
              id: 'name',
              label: columns.model,
              sortBy: ({ id }) => id,
              cell: ({ id, description }) => (
                <button
                  type="button"
                  class="row-button"
                  title={description}
                  onClick={() => changeSearch({ model: id })}
                >
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
              sortBy: (model) => STATUSES.indexOf(model.status),
              cell: (model) => <ModelStatus model={model} broken={isBroken(model, engineOf(model))} />,
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
          ]}
        />
      )}
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

/** An upstream is configured, and none answers. */
const isBroken = (model: Model, engine: Engine | undefined) =>
  model.status === 'unavailable' && (engine?.upstreams.length ?? 0) > 0;

function EngineCell({ engine }: { engine: Engine | undefined }) {
  if (!engine) return <span class="muted">–</span>;
  if (engine.weights === null && engine.upstreams.length === 0)
    return <span class="muted">{texts.engines.noUpstream}</span>;
  if (engine.weights === null) return <span class="muted">{texts.engines.upstreamsOf(engine.upstreams.length)}</span>;
  return <WeightsState weights={engine.weights} />;
}
