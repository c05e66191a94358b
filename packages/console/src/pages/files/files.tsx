import { useRef, useState } from 'preact/hooks';
import { keptSearch, useNow } from '../../address/range.ts';
import { href, useParameter } from '../../address/router.ts';
import { exactTime } from '../../address/zone.ts';
import { call } from '../../api/client.ts';
import { fileAddress, useFiles } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import { useWorkAccount } from '../../api/session.ts';
import type { StoredFile } from '../../api/types.ts';
import { Button, LinkButton } from '../../components/button.tsx';
import { Select } from '../../components/choices.tsx';
import { Copyable, CopyButton } from '../../components/copying.tsx';
import { Details } from '../../components/details.tsx';
import { Empty, toast, toastFailure } from '../../components/feedback.tsx';
import { Listing } from '../../components/listing.tsx';
import { Modal, Sheet } from '../../components/overlay.tsx';
import { Page } from '../../components/page.tsx';
import type { Column } from '../../components/table.tsx';
import { bytes, full } from '../../format/numbers.ts';
import { ago } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { useWorkAbout } from '../accounts/work-about.ts';
import { isBatchInput, isResult, shortName } from './file-kind.ts';
import { UploadArea } from './upload-area.tsx';

export default function Files() {
  const [purpose, setPurpose] = useParameter('purpose');
  const files = useFiles(purpose);
  const [opened, setOpened] = useParameter('file');
  const [removing, setRemoving] = useState<StoredFile>();
  const chooser = useRef<HTMLInputElement>(null);
  const now = useNow();
  const open = files.data?.data.find(({ id }) => id === opened);
  return (
    <Page
      title={texts.files.title}
      about={useWorkAbout(texts.files.about)}
      action={
        <Button tone="primary" icon="upload" onClick={() => chooser.current?.click()}>
          {texts.files.upload}
        </Button>
      }
      filters={
        <Select
          inline
          label={texts.files.columns.purpose}
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
        <Listing
          query={files}
          label={texts.files.title}
          columns={fileColumns({ now, onOpen: setOpened, onRemove: setRemoving })}
          rowKey={({ id }) => id}
          selected={open?.id}
          onOpen={({ id }) => setOpened(id)}
          initialSort="-created"
          filters={{ purpose: undefined }}
          empty={
            <Empty icon="files" title={texts.files.emptyTitle}>
              <p>{texts.files.emptyText}</p>
            </Empty>
          }
        />
      </div>
      {open && <FileSheet file={open} onRemove={() => setRemoving(open)} onClose={() => setOpened(undefined)} />}
      {removing && <RemoveFile file={removing} onClose={() => setRemoving(undefined)} />}
    </Page>
  );
}

function RemoveFile({ file, onClose }: { file: StoredFile; onClose: () => void }) {
  const { query } = useWorkAccount();
  const remove = async () => {
    try {
      await call(`/v1/files/${file.id}`, { method: 'DELETE', query });
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

/** A batch that is to be created from the file. */
const batchOf = ({ id }: StoredFile): string =>
  href('/batches', { ...keptSearch(new URLSearchParams(location.search)), new: 'batch', file: id });

const purposeOf = (file: StoredFile): string =>
  isResult(file) ? texts.files.result : texts.files.purposes[file.purpose];

function FileSheet({ file, onRemove, onClose }: { file: StoredFile; onRemove: () => void; onClose: () => void }) {
  const { query } = useWorkAccount();
  const { columns } = texts.files;
  return (
    <Sheet
      title={file.filename}
      about={<Copyable text={file.id} />}
      onClose={onClose}
      foot={
        <>
          <Button tone="danger" icon="trash" onClick={onRemove}>
            {texts.files.remove}
          </Button>
          {isBatchInput(file) && <LinkButton href={batchOf(file)}>{texts.files.batchOf}</LinkButton>}
          <LinkButton href={fileAddress(file.id, query)} icon="download" tone="primary" download={file.filename}>
            {texts.files.download}
          </LinkButton>
        </>
      }
    >
      <Details
        rows={[
          [columns.purpose, purposeOf(file)],
          [columns.size, `${full(file.bytes)} B`],
          [columns.created, exactTime(isoOf(file.created_at))],
          [columns.expires, exactTime(isoOf(file.expires_at))],
        ]}
      />
    </Sheet>
  );
}

interface FileColumnsOptions {
  now: number;
  onOpen(id: string): void;
  onRemove(file: StoredFile): void;
}

function fileColumns({ now, onOpen, onRemove }: FileColumnsOptions): Column<StoredFile>[] {
  const { columns } = texts.files;
  return [
    {
      id: 'name',
      label: columns.name,
      sortBy: ({ filename }) => filename.toLowerCase(),
      cell: ({ id, filename }) => (
        <button type="button" class="row-button row-name" dir="auto" title={filename} onClick={() => onOpen(id)}>
          {shortName({ filename })}
        </button>
      ),
    },
    {
      id: 'purpose',
      label: columns.purpose,
      wide: true,
      sortBy: (file) => file.purpose,
      cell: purposeOf,
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
      cell: (file) => <FileTime time={file.created_at} now={now} />,
    },
    {
      id: 'expires',
      label: columns.expires,
      sortBy: (file) => file.expires_at,
      cell: (file) => <FileTime time={file.expires_at} now={now} />,
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
              <LinkButton size="small" href={batchOf(file)}>
                {texts.files.batchOf}
              </LinkButton>
            </span>
          )}
          <Button
            tone="quiet"
            size="small"
            icon="trash"
            label={`${texts.files.remove} ${file.filename}`}
            onClick={() => onRemove(file)}
          />
        </div>
      ),
    },
  ];
}

/** A key of the dialect `openai` gets Unix seconds. */
const isoOf = (time: StoredFile['created_at']): string =>
  typeof time === 'number' ? new Date(time * 1000).toISOString() : time;

function FileTime({ time, now }: { time: StoredFile['created_at']; now: number }) {
  const iso = isoOf(time);
  return <span title={exactTime(iso)}>{ago(iso, now)}</span>;
}
