import { useRef, useState } from 'preact/hooks';
import { useNow } from '../../address/range.ts';
import { useParameter } from '../../address/router.ts';
import { call } from '../../api/client.ts';
import { useFiles } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import { ownAccount, useSession } from '../../api/session.ts';
import type { StoredFile } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { Select } from '../../components/choices.tsx';
import { Empty, toast, toastFailure } from '../../components/feedback.tsx';
import { Listing } from '../../components/listing.tsx';
import { Modal } from '../../components/overlay.tsx';
import { Page } from '../../components/page.tsx';
import { texts } from '../../texts/en/texts.ts';
import { fileColumns } from './file-columns.tsx';
import { UploadArea } from './upload-area.tsx';

export default function Files() {
  const session = useSession();
  const [purpose, setPurpose] = useParameter('purpose');
  const files = useFiles(purpose);
  const [removing, setRemoving] = useState<StoredFile>();
  const chooser = useRef<HTMLInputElement>(null);
  const now = useNow();
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
          columns={fileColumns({ now, onRemove: setRemoving })}
          rowKey={({ id }) => id}
          initialSort="-created"
          filters={{ purpose: undefined }}
          empty={
            <Empty icon="files" title={texts.files.emptyTitle}>
              <p>{texts.files.emptyText}</p>
            </Empty>
          }
        />
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
