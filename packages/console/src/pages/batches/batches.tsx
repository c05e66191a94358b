import { useNow } from '../../address/range.ts';
import { changeSearch, usePlace } from '../../address/router.ts';
import { useEvent } from '../../api/events.ts';
import { useBatches } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import { ownAccount, useSession } from '../../api/session.ts';
import type { Batch } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { CodeBlock } from '../../components/copying.tsx';
import { Empty } from '../../components/feedback.tsx';
import { Listing } from '../../components/listing.tsx';
import { Page } from '../../components/page.tsx';
import type { Column } from '../../components/table.tsx';
import { full } from '../../format/numbers.ts';
import { ago, dateTime } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { BatchProgress, BatchStatus, took } from './batch-parts.tsx';
import { BatchSheet } from './batch-sheet.tsx';
import { CreateBatch } from './create-batch.tsx';

const EXAMPLE =
  '{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "…", "messages": [{"role": "user", "content": "Hello"}]}}';

function batchColumns(now: number): Column<Batch>[] {
  const { columns } = texts.batches;
  return [
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
      cell: ({ request_counts: { failed } }) => <span class={failed > 0 ? 'bad' : undefined}>{full(failed)}</span>,
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
  ];
}

export default function Batches() {
  const session = useSession();
  const { search } = usePlace();
  const now = useNow();
  const batches = useBatches();
  useEvent('batch', (event) => {
    // Operators get the events of all accounts. This page lists the batches of their own.
    if (event.account_id !== session.account.id) return;
    const renew = (batch: Batch): Batch =>
      batch.id === event.id ? { ...batch, status: event.status, request_counts: event.request_counts } : batch;
    batches.change(renew);
    queryClient.setQueryData<Batch>(['batch', event.id], (batch) => batch && renew(batch));
    if (event.status === 'in_progress') return;
    // The end of a batch brings fields that the event does not have.
    void queryClient.invalidateQueries({ queryKey: ['batches'] });
    void queryClient.invalidateQueries({ queryKey: ['batch', event.id] });
  });
  const open = search.get('batch') ?? undefined;
  const create = (
    <Button tone="primary" icon="plus" onClick={() => changeSearch({ new: 'batch' })}>
      {texts.batches.create}
    </Button>
  );
  return (
    <Page title={texts.batches.title} about={ownAccount(texts.batches.about, session)} action={create}>
      <Listing
        query={batches}
        label={texts.batches.title}
        columns={batchColumns(now)}
        rowKey={({ id }) => id}
        selected={open}
        onOpen={({ id }) => changeSearch({ batch: id })}
        initialSort="-created"
        empty={
          <Empty icon="batches" title={texts.batches.emptyTitle} action={create}>
            <p>{texts.batches.emptyText}</p>
            <CodeBlock code={EXAMPLE} />
          </Empty>
        }
      />
      {search.get('new') === 'batch' && (
        <CreateBatch onClose={() => changeSearch({ new: undefined, file: undefined })} />
      )}
      {open && (
        <BatchSheet
          key={open}
          id={open}
          known={batches.rows.find(({ id }) => id === open)}
          onClose={() => changeSearch({ batch: undefined })}
        />
      )}
    </Page>
  );
}
