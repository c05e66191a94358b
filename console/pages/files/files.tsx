import { useRef, useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import type { List, StoredFile } from '../../api/types.ts';
import { queryClient, useQuery } from '../../app/query.ts';
import { useNow } from '../../app/range.ts';
import { href, useParameter } from '../../app/router.ts';
import { ownAccount, useSession } from '../../app/session.ts';
import { Button, CopyButton, LinkButton, Select } from '../../components/controls.tsx';
import { Empty, Failure, toast, toastFailure } from '../../components/feedback.tsx';
import { Modal } from '../../components/overlay.tsx';
import { Page } from '../../components/page.tsx';
import { type Column, Table, TableSkeleton } from '../../components/table.tsx';
import { bytes, full } from '../../format/numbers.ts';
import { ago, dateTime } from '../../format/times.ts';
import { texts } from '../../texts/en.ts';
import { isBatchInput, isResult, shortName } from './file-kind.ts';
import { UploadArea } from './upload-area.tsx';

const PAGE = 1000;

export default function Files() {
  const session = useSession();
  const [purpose, setPurpose] = useParameter('purpose');
  const files = useQuery<List<StoredFile>>({
    key: ['files', purpose],
    fetch: (signal) => call('/v1/files', { query: { limit: PAGE, purpose }, signal }),
  });
  const [removing, setRemoving] = useState<StoredFile>();
  const chooser = useRef<HTMLInputElement>(null);
  const now = useNow();
  const rows = files.data?.data ?? [];
  const content = (id: string) => `/v1/files/${id}/content`;
  const { columns } = texts.files;
  const list: Column<StoredFile>[] = [
    {
      id: 'name',
      label: columns.name,
      sortBy: ({ filename }) => filename.toLowerCase(),
      cell: ({ id, filename }) => (
        <a class="truncate strong" dir="auto" href={content(id)} download={filename} title={filename}>
          {shortName({ filename })}
        </a>
      ),
    },
    {
      id: 'purpose',
      label: columns.purpose,
      wide: true,
      sortBy: (file) => file.purpose,
      cell: (file) => (isResult(file) ? texts.files.result : texts.files.purposes[file.purpose]),
    },
    {
      id: 'size',
      label: columns.size,
      number: true,
      sortBy: (file) => file.bytes,
      cell: (file) => <span title={full(file.bytes)}>{bytes(file.bytes)}</span>,
    },
    {
      id: 'created',
      label: columns.created,
      wide: true,
      sortBy: (file) => file.created_at,
      cell: (file) => <span title={dateTime(file.created_at, 'UTC')}>{ago(file.created_at, now)}</span>,
    },
    {
      id: 'expires',
      label: columns.expires,
      sortBy: (file) => file.expires_at,
      cell: (file) => <span title={dateTime(file.expires_at, 'UTC')}>{ago(file.expires_at, now)}</span>,
    },
    {
      id: 'id',
      label: columns.id,
      extra: true,
      cell: ({ id }) => (
        <span class="copyable">
          <code class="muted">{id.slice(0, 14)}…</code>
          <CopyButton text={id} />
        </span>
      ),
    },
    {
      id: 'actions',
      label: '',
      cell: (file) => (
        <div class="table-actions">
          {isBatchInput(file) && (
            <span class="wide-only">
              <LinkButton size="small" href={href('/batches', { new: 'batch', file: file.id })}>
                {texts.files.batchOf}
              </LinkButton>
            </span>
          )}
          <Button
            tone="quiet"
            size="small"
            icon="trash"
            label={`${texts.files.remove} ${file.filename}`}
            onClick={() => setRemoving(file)}
          />
        </div>
      ),
    },
  ];
  return (
    <Page
      title={texts.files.title}
      about={ownAccount(texts.files.about, session)}
      action={
        <Button tone="primary" icon="upload" onClick={() => chooser.current?.click()}>
          {texts.files.upload}
        </Button>
      }
      filters={
        <Select
          inline
          label={columns.purpose}
          options={[
            { value: '', label: texts.files.anyPurpose },
            ...Object.entries(texts.files.purposes).map(([value, label]) => ({ value, label })),
          ]}
          value={purpose}
          onValue={setPurpose}
        />
      }
    >
      <div class="stack">
        <UploadArea chooser={chooser} />
        {files.isError && !files.data && <Failure error={files.error} onRetry={() => void files.refetch()} />}
        {files.isPending && <TableSkeleton columns={5} />}
        {files.data && rows.length === 0 && (
          <Empty icon="files" title={texts.files.emptyTitle}>
            <p>{texts.files.emptyText}</p>
          </Empty>
        )}
        {rows.length > 0 && (
          <Table
            label={texts.files.title}
            columns={list}
            rows={rows}
            rowKey={({ id }) => id}
            initialSort="-created"
            foot={texts.common.count(full(rows.length))}
          />
        )}
      </div>
      {removing && <RemoveFile file={removing} onClose={() => setRemoving(undefined)} />}
    </Page>
  );
}

function RemoveFile({ file, onClose }: { file: StoredFile; onClose: () => void }) {
  const remove = async () => {
    try {
      await call(`/v1/files/${file.id}`, { method: 'DELETE' });
      await queryClient.invalidateQueries({ queryKey: ['files'] });
      toast(texts.files.removed(file.filename));
    } catch (error) {
      toastFailure(error);
    }
    onClose();
  };
  return (
    <Modal
      title={texts.files.removeTitle(file.filename)}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{texts.common.cancel}</Button>
          <Button tone="danger-filled" onClick={() => void remove()}>
            {texts.files.remove}
          </Button>
        </>
      }
    >
      <p>{texts.files.removeText}</p>
    </Modal>
  );
}
