import { BATCH_OPERATIONS } from '@baobab/core/domain/operations.ts';
import { useState } from 'preact/hooks';
import { keptSearch, useNow } from '../../address/range.ts';
import { changeSearch, href, usePlace } from '../../address/router.ts';
import { exactTime } from '../../address/zone.ts';
import { call } from '../../api/client.ts';
import { useEvent } from '../../api/events.ts';
import { useBatches, useFileStart, useFiles } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import { useWorkAccount } from '../../api/session.ts';
import type { Batch } from '../../api/types.ts';
import { Button, LinkButton } from '../../components/button.tsx';
import { optionsOf, Select } from '../../components/choices.tsx';
import { CodeBlock } from '../../components/copying.tsx';
import { Empty, toast } from '../../components/feedback.tsx';
import { Form, useForm } from '../../components/form.tsx';
import { Listing } from '../../components/listing.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { Page } from '../../components/page.tsx';
import type { Column } from '../../components/table.tsx';
import { bytes, full, moneyExact } from '../../format/numbers.ts';
import { ago } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { useWorkAbout } from '../accounts/work-about.ts';
import { isBatchInput } from '../files/file-kind.ts';
import { BatchProgress, BatchStatus, took } from './batch-parts.tsx';
import { firstLine } from './batch-problems.ts';
import { BatchSheet } from './batch-sheet.tsx';

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
        return <span title={exactTime(iso)}>{ago(iso, now)}</span>;
      },
    },
    {
      id: 'took',
      label: columns.took,
      number: true,
      extra: true,
      cell: (batch) => took(batch) ?? '–',
    },
    {
      id: 'cost',
      label: columns.cost,
      number: true,
      extra: true,
      sortBy: ({ cost_usd }) => cost_usd ?? 0,
      cell: ({ cost_usd }) => (cost_usd === undefined ? '–' : moneyExact(cost_usd)),
    },
  ];
}

export default function Batches() {
  const { id: account } = useWorkAccount();
  const { search } = usePlace();
  const now = useNow();
  const batches = useBatches();
  useEvent('batch', (event) => {
    // Operators get the events of all accounts. This page lists the batches of one.
    if (event.account_id !== account) return;
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
    <Page title={texts.batches.title} about={useWorkAbout(texts.batches.about)} action={create}>
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

const ENDPOINTS = Object.keys(BATCH_OPERATIONS);

/** A longer line is cut, and says nothing. */
const FIRST_LINE_CHARACTERS = 100_000;

function CreateBatch({ onClose }: { onClose: () => void }) {
  const { search } = usePlace();
  const files = useFiles('batch');
  const { query } = useWorkAccount();
  const [chosen, setChosen] = useState(search.get('file') ?? '');
  const [picked, setEndpoint] = useState<string>();
  const [window, setWindow] = useState('24h');
  const { batches } = texts;
  const inputs = (files.data?.data ?? []).filter(isBatchInput);
  const input = chosen || inputs[0]?.id || '';
  const { data: start } = useFileStart(input === '' ? undefined : input, FIRST_LINE_CHARACTERS);
  const asked = start === undefined ? undefined : firstLine(start)?.url;
  const endpoint = picked ?? ENDPOINTS.find((each) => each === asked) ?? ENDPOINTS[0] ?? '';

  const wanted = { input_file_id: input, endpoint, completion_window: window };
  const form = useForm(wanted, async (body) => {
    const batch = await call<Batch>('/v1/batches', { method: 'POST', query, body });
    await queryClient.invalidateQueries({ queryKey: ['batches'] });
    toast(batches.created(batch.id));
    changeSearch({ new: undefined, file: undefined, batch: batch.id });
  });
  return (
    <Sheet title={batches.sheetTitle} onClose={onClose}>
      <Form state={form} action={batches.create} ready={input !== ''} onCancel={onClose}>
        {files.data && inputs.length === 0 ? (
          <div class="notice row spread">
            {batches.noInput}
            <LinkButton href={href('/files', keptSearch(search))} icon="upload" size="small">
              {texts.files.upload}
            </LinkButton>
          </div>
        ) : (
          <Select
            label={batches.input}
            options={inputs.map((file) => ({ value: file.id, label: `${file.filename} (${bytes(file.bytes)})` }))}
            value={input}
            onValue={setChosen}
          />
        )}
        <Select
          label={batches.endpoint}
          options={ENDPOINTS.map((value) => ({ value, label: value }))}
          value={endpoint}
          onValue={setEndpoint}
        />
        <Select label={batches.window} options={optionsOf(batches.windows)} value={window} onValue={setWindow} />
      </Form>
    </Sheet>
  );
}
