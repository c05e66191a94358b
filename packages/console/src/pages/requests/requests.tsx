import { MODEL_ENDPOINTS } from '@baobab/core/domain/operations.ts';
import { useEffect, useState } from 'preact/hooks';
import { useRange } from '../../address/range.ts';
import { changeSearch, usePlace } from '../../address/router.ts';
import { useEvent } from '../../api/events.ts';
import { useKey, useModels, useRequests } from '../../api/queries.ts';
import { ALL_ACCOUNTS, useAccountFilter } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { optionsOf, Select } from '../../components/choices.tsx';
import { SearchField } from '../../components/fields.tsx';
import { Listing } from '../../components/listing.tsx';
import { Page } from '../../components/page.tsx';
import { FilterChip, RangeFilter } from '../../components/range-filter.tsx';
import { texts } from '../../texts/en/texts.ts';
import { FirstRequest } from '../first-request/first-request.tsx';
import { requestColumns } from './request-columns.tsx';
import { RequestSheet } from './request-sheet.tsx';

const PRESETS = ['1h', '24h', 'yesterday', '7d', '30d'];
const ENDPOINTS = Object.keys(MODEL_ENDPOINTS);
const NO_FILTERS = {
  status: undefined,
  model: undefined,
  key: undefined,
  endpoint: undefined,
  region: undefined,
  id: undefined,
};

export default function Requests() {
  const { search } = usePlace();
  const range = useRange('24h');
  const models = useModels();
  const account = useAccountFilter();
  const filter = (name: string) => search.get(name) ?? undefined;
  const query = {
    status: filter('status'),
    model: filter('model'),
    key: filter('key'),
    endpoint: filter('endpoint'),
    region: filter('region'),
    request_id: filter('id'),
  };
  const pages = useRequests(range, query);
  const { rows } = pages;
  const [newer, setNewer] = useState(0);
  useEffect(() => setNewer(0), [pages.identity]);
  useEvent('requests', ({ data }) => setNewer((count) => count + data.length));
  const refresh = () => {
    setNewer(0);
    void pages.refetch();
  };
  const key = useKey(query.key);
  const keyName = (id: string) => key?.name ?? rows.find((row) => row.key === id)?.key_name ?? id;
  const open = search.get('request') ?? undefined;

  return (
    <Page
      title={texts.requests.title}
      about={texts.requests.about}
      action={
        <Button icon="rotate" onClick={refresh}>
          {newer > 0 ? texts.requests.newer(newer) : texts.common.refresh}
        </Button>
      }
      filters={
        <>
          <RangeFilter range={range} presets={PRESETS} />
          <Select
            inline
            label={texts.requests.columns.status}
            options={optionsOf(texts.requests.statuses)}
            value={filter('status') ?? ''}
            onValue={(status) => changeSearch({ status })}
          />
          <Select
            inline
            label={texts.requests.model}
            options={[
              { value: '', label: texts.requests.anyModel },
              ...(models.data?.data ?? []).map(({ id }) => ({ value: id, label: id })),
            ]}
            value={filter('model') ?? ''}
            onValue={(model) => changeSearch({ model })}
          />
          <Select
            inline
            label={texts.requests.endpoint}
            options={[
              { value: '', label: texts.requests.anyEndpoint },
              ...ENDPOINTS.map((value) => ({ value, label: value })),
            ]}
            value={filter('endpoint') ?? ''}
            onValue={(endpoint) => changeSearch({ endpoint })}
          />
          <SearchField
            mono
            label={texts.requests.findId}
            value={filter('id') ?? ''}
            onCommit={(id) => changeSearch({ id })}
          />
          {query.key && (
            <FilterChip
              name={texts.requests.key}
              value={keyName(query.key)}
              onRemove={() => changeSearch({ key: undefined })}
            />
          )}
          {query.region && (
            <FilterChip
              name={texts.requests.region}
              value={query.region}
              onRemove={() => changeSearch({ region: undefined })}
            />
          )}
        </>
      }
    >
      <Listing
        query={pages}
        label={texts.requests.title}
        rowKey={({ id }) => id}
        skeletonRows={12}
        columns={requestColumns({ zone: range.zone, withAccount: account === ALL_ACCOUNTS })}
        filters={NO_FILTERS}
        empty={<FirstRequest title={texts.requests.emptyTitle} text={texts.requests.emptyText} />}
        selected={open}
        onOpen={({ id }) => changeSearch({ request: id })}
      />
      {open && (
        <RequestSheet
          id={open}
          known={rows.find(({ id }) => id === open)}
          zone={range.zone}
          onClose={() => changeSearch({ request: undefined })}
        />
      )}
    </Page>
  );
}
