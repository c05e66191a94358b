import { useNow } from '../../address/range.ts';
import { changeSearch, usePlace } from '../../address/router.ts';
import { call } from '../../api/client.ts';
import { useEvent } from '../../api/events.ts';
import { queryClient, useQuery } from '../../api/query.ts';
import { ownAccount, useSession } from '../../api/session.ts';
import type { Batch, List } from '../../api/types.ts';
import { Button, CodeBlock } from '../../components/controls.tsx';
import { Empty, Failure } from '../../components/feedback.tsx';
import { Page } from '../../components/page.tsx';
import { Table, TableSkeleton } from '../../components/table.tsx';
import { full } from '../../format/numbers.ts';
import { ago, dateTime } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { BatchProgress, BatchStatus, took } from './batch-parts.tsx';
import { BatchSheet } from './batch-sheet.tsx';
import { CreateBatch } from './create-batch.tsx';

const PAGE = 100;
const EXAMPLE =
  '{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "…", "messages": [{"role": "user", "content": "Hello"}]}}';

export default function Batches() {
  const session = useSession();
  const { search } = usePlace();
  const now = useNow();
  const batches = useQuery<List<Batch>>({
    key: ['batches'],
    fetch: (signal) => call('/v1/batches', { query: { limit: PAGE }, signal }),
    refetchMs: 30_000,
  });
  useEvent('batch', (event) => {
    // Operators get the events of all accounts. This page lists the batches of their own.
    if (event.account_id !== session.account.id) return;
    queryClient.setQueryData<List<Batch>>(
      ['batches'],
      (list) =>
        list && { ...list, data: list.data.map((batch) => (batch.id === event.id ? { ...batch, ...event } : batch)) },
    );
    // The end of a batch brings fields that the event does not have.
    if (event.status !== 'in_progress') void queryClient.invalidateQueries({ queryKey: ['batches'] });
  });
  const rows = batches.data?.data ?? [];
  const open = rows.find(({ id }) => id === search.get('batch'));
  const create = (
    <Button tone="primary" icon="plus" onClick={() => changeSearch({ new: 'batch' })}>
      {texts.batches.create}
    </Button>
  );
  const { columns } = texts.batches;
  return (
    <Page title={texts.batches.title} about={ownAccount(texts.batches.about, session)} action={create}>
      {batches.isError && !batches.data && <Failure error={batches.error} onRetry={() => void batches.refetch()} />}
      {batches.isPending && <TableSkeleton columns={5} />}
      {batches.data && rows.length === 0 && (
        <Empty icon="batches" title={texts.batches.emptyTitle} action={create}>
          <p>{texts.batches.emptyText}</p>
          <CodeBlock code={EXAMPLE} />
        </Empty>
      )}
      {rows.length > 0 && (
        <Table
          label={texts.batches.title}
          rows={rows}
          rowKey={({ id }) => id}
          selected={open?.id}
          onOpen={({ id }) => changeSearch({ batch: id })}
          initialSort="-created"
          columns={[
            {
              id: 'id',
              label: columns.id,
              card: 'title',
              cell: ({ id }) => (
                <button type="button" class="row-button mono" onClick={() => changeSearch({ batch: id })}>
                  {id}
                </button>
              ),
            },
            {
              id: 'status',
              label: columns.status,
              card: 'badge',
              sortBy: ({ status }) => status,
              cell: (batch) => <BatchStatus batch={batch} />,
            },
            {
              id: 'endpoint',
              label: columns.endpoint,
              extra: true,
              sortBy: ({ endpoint }) => endpoint,
              cell: ({ endpoint }) => <code>{endpoint}</code>,
            },
            { id: 'progress', label: columns.progress, cell: (batch) => <BatchProgress batch={batch} /> },
            {
              id: 'failed',
              label: columns.failed,
              number: true,
              wide: true,
              sortBy: ({ request_counts: { failed } }) => failed,
              cell: ({ request_counts: { failed } }) => (
                <span class={failed > 0 ? 'bad' : undefined}>{full(failed)}</span>
              ),
            },
            {
              id: 'created',
              label: columns.created,
              sortBy: ({ created_at }) => created_at,
              cell: ({ created_at: at }) => {
                const iso = new Date(at * 1000).toISOString();
                return <span title={dateTime(iso, 'UTC')}>{ago(iso, now)}</span>;
              },
            },
            {
              id: 'took',
              label: columns.took,
              number: true,
              extra: true,
              cell: (batch) => took(batch) ?? '–',
            },
          ]}
        />
      )}
      {search.get('new') === 'batch' && (
        <CreateBatch onClose={() => changeSearch({ new: undefined, file: undefined })} />
      )}
      {open && <BatchSheet batch={open} onClose={() => changeSearch({ batch: undefined })} />}
    </Page>
  );
}
