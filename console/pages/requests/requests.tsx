import { useEffect, useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import { useEvent } from '../../api/events.ts';
import { useKeys, useModels } from '../../api/queries.ts';
import type { List, RequestEntry } from '../../api/types.ts';
import { useQuery } from '../../app/query.ts';
import { useRange } from '../../app/range.ts';
import { changeSearch, usePlace } from '../../app/router.ts';
import { useAccountFilter } from '../../app/session.ts';
import { Button, optionsOf, Select } from '../../components/controls.tsx';
import { Empty, Failure, toastFailure } from '../../components/feedback.tsx';
import { Page } from '../../components/page.tsx';
import { FilterChip, RangeFilter } from '../../components/range-filter.tsx';
import { Table, TableSkeleton } from '../../components/table.tsx';
import { full } from '../../format/numbers.ts';
import { texts } from '../../texts/en.ts';
import { FirstRequest } from '../first-request.tsx';
import { requestColumns } from './request-columns.tsx';
import { RequestSheet } from './request-sheet.tsx';

const PRESETS = ['1h', '24h', 'yesterday', '7d', '30d'];
const ENDPOINTS = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/rerank',
  '/v1/audio/transcriptions',
];
const PAGE = 50;
const FILTERS = ['status', 'model', 'key', 'endpoint', 'region', 'id'] as const;

export default function Requests() {
  const { search } = usePlace();
  const account = useAccountFilter();
  const range = useRange('24h');
  const models = useModels();
  const keys = useKeys();
  const filter = (name: string) => search.get(name) ?? undefined;
  const query = {
    limit: PAGE,
    start: range.start,
    end: range.end,
    status: filter('status'),
    model: filter('model'),
    key: filter('key'),
    endpoint: filter('endpoint'),
    region: filter('region'),
    request_id: filter('id'),
    account,
  };
  // The start of a preset moves every minute. The list must not be thrown away for that.
  const identity = JSON.stringify({ ...query, start: range.name === 'custom' ? range.start : range.name });
  const first = useQuery<List<RequestEntry>>({
    key: ['requests', identity],
    fetch: (signal) => call('/v1/requests', { query, signal }),
  });
  const [older, setOlder] = useState<List<RequestEntry>[]>([]);
  const [newer, setNewer] = useState(0);
  const [loading, setLoading] = useState(false);
  useEffect(() => {
    setOlder([]);
    setNewer(0);
  }, [identity]);
  useEvent('requests', ({ data }) => setNewer((count) => count + data.length));

  const rows = [first.data, ...older].flatMap((page) => page?.data ?? []);
  const last = older.at(-1) ?? first.data;
  const filtered = FILTERS.some((name) => search.has(name));
  const refresh = () => {
    setOlder([]);
    setNewer(0);
    void first.refetch();
  };
  const loadOlder = async () => {
    if (!last?.next_cursor) return;
    setLoading(true);
    try {
      const page = await call<List<RequestEntry>>('/v1/requests', { query: { ...query, after: last.next_cursor } });
      setOlder((pages) => [...pages, page]);
    } catch (error) {
      toastFailure(error);
    }
    setLoading(false);
  };
  const clear = () => changeSearch(Object.fromEntries(FILTERS.map((name) => [name, undefined])));
  const keyName = (id: string) =>
    keys.data?.data.find((key) => key.id === id)?.name ?? rows.find(({ key }) => key === id)?.key_name ?? id;
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
          <input
            class="input input-find mono"
            type="search"
            aria-label={texts.requests.findId}
            placeholder={texts.requests.findId}
            value={filter('id') ?? ''}
            onChange={(event) => changeSearch({ id: event.currentTarget.value.trim() })}
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
      {first.isError && !first.data && <Failure error={first.error} onRetry={refresh} />}
      {first.isPending && <TableSkeleton rows={12} columns={8} />}
      {first.data && rows.length === 0 && filtered && (
        <Empty
          icon="search"
          title={texts.common.noMatch}
          action={<Button onClick={clear}>{texts.common.clearFilters}</Button>}
        />
      )}
      {first.data && rows.length === 0 && !filtered && (
        <FirstRequest title={texts.requests.emptyTitle} text={texts.requests.emptyText} />
      )}
      {rows.length > 0 && (
        <div class="stack-tight">
          <Table
            label={texts.requests.title}
            columns={requestColumns(range.zone)}
            rows={rows}
            rowKey={({ id }) => id}
            selected={open}
            onOpen={({ id }) => changeSearch({ request: id })}
            pageSize={10_000}
            foot={texts.requests.shown(full(rows.length))}
          />
          {last?.has_more && (
            <div>
              <Button disabled={loading} onClick={() => void loadOlder()}>
                {texts.requests.older}
              </Button>
            </div>
          )}
        </div>
      )}
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
