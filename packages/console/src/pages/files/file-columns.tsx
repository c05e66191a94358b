import { href } from '../../address/router.ts';
import type { StoredFile } from '../../api/types.ts';
import { Button, LinkButton } from '../../components/button.tsx';
import { CopyButton } from '../../components/copying.tsx';
import type { Column } from '../../components/table.tsx';
import { bytes, full } from '../../format/numbers.ts';
import { ago, dateTime } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { isBatchInput, isResult, shortName } from './file-kind.ts';

export interface FileColumnsOptions {
  now: number;
  onRemove(file: StoredFile): void;
}

export function fileColumns({ now, onRemove }: FileColumnsOptions): Column<StoredFile>[] {
  const { columns } = texts.files;
  return [
    {
      id: 'name',
      label: columns.name,
      sortBy: ({ filename }) => filename.toLowerCase(),
      cell: ({ id, filename }) => (
        <a class="truncate strong" dir="auto" href={`/v1/files/${id}/content`} download={filename} title={filename}>
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
            onClick={() => onRemove(file)}
          />
        </div>
      ),
    },
  ];
}
