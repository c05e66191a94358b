import { isOperator } from '@baobab/core/domain/operations.ts';
import { changeSearch, useParameter, usePlace } from '../../address/router.ts';
import { useEngines, useModels } from '../../api/queries.ts';
import { useSession } from '../../api/session.ts';
import type { Model } from '../../api/types.ts';
import { Select } from '../../components/choices.tsx';
import { Empty } from '../../components/feedback.tsx';
import { SearchField } from '../../components/fields.tsx';
import { Listing } from '../../components/listing.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { Page } from '../../components/page.tsx';
import { texts } from '../../texts/en/texts.ts';
import { LiveEngines } from '../engines/live-engines.tsx';
import { modelColumns } from './model-columns.tsx';
import { MODEL_STATUSES } from './model-parts.tsx';
import { ModelSheet } from './model-sheet.tsx';

const MODALITIES = ['chat', 'embedding', 'rerank', 'audio'];

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
            values={MODEL_STATUSES}
            names={texts.models.statuses}
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
