import type { RefObject } from 'preact';
import { useState } from 'preact/hooks';
import { queryClient } from '../../api/query.ts';
import { useWorkAccount } from '../../api/session.ts';
import { purposeOf, upload } from '../../api/upload.ts';
import { Meter, toast } from '../../components/feedback.tsx';
import { percent } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';

interface Running {
  name: string;
  share: number;
}

/** Takes dropped or chosen files and sends them one after another. */
export function UploadArea({ chooser }: { chooser: RefObject<HTMLInputElement | null> }) {
  const { query } = useWorkAccount();
  const [over, setOver] = useState(false);
  const [running, setRunning] = useState<Running>();

  const send = async (files: FileList | null | undefined) => {
    for (const file of files ?? []) {
      setRunning({ name: file.name, share: 0 });
      try {
        await upload(file, { purpose: purposeOf(file), query }, (share) => setRunning({ name: file.name, share }));
        toast(texts.files.uploaded(file.name));
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        toast(texts.files.failed(file.name, why), { bad: true });
      }
    }
    setRunning(undefined);
    if (chooser.current) chooser.current.value = '';
    await queryClient.invalidateQueries({ queryKey: ['files'] });
  };

  return (
    <section
      class={over ? 'file-drop file-drop-over' : 'file-drop'}
      aria-label={texts.files.upload}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void send(event.dataTransfer?.files);
      }}
    >
      <input
        ref={chooser}
        class="hidden-visually"
        type="file"
        multiple
        tabIndex={-1}
        aria-label={texts.files.choose}
        onChange={(event) => void send(event.currentTarget.files)}
      />
      {running ? (
        <div class="stack-tight upload-progress">
          <span class="numbers">{texts.files.uploading(running.name, percent(running.share))}</span>
          <Meter progress share={running.share} label={running.name} />
        </div>
      ) : (
        <>
          <span>
            {texts.files.drop}{' '}
            <button type="button" class="link-button" onClick={() => chooser.current?.click()}>
              {texts.files.choose}
            </button>
          </span>
          <span class="small">{texts.files.dropHint}</span>
        </>
      )}
    </section>
  );
}
