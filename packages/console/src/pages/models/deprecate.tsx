import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import { queryClient } from '../../api/query.ts';
import type { Model } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { Select } from '../../components/choices.tsx';
import { toast } from '../../components/feedback.tsx';
import { TextField } from '../../components/fields.tsx';
import { Modal } from '../../components/overlay.tsx';
import { texts } from '../../texts/en/texts.ts';

const NOTICE_DAYS = 90;

/** The server accepts dates at least 90 days ahead; the day after is safe in every time zone. */
const earliest = () => new Date(Date.now() + (NOTICE_DAYS + 1) * DAY_MS).toISOString().slice(0, 10);

export function Deprecate({ model, onClose }: { model: Model; onClose: () => void }) {
  const [target, setTarget] = useState(model.id);
  const [on, setOn] = useState(earliest);
  const [error, setError] = useState<string>();
  const { models } = texts;
  const submit = async () => {
    try {
      await call('/v1/admin/models/deprecate', { method: 'POST', body: { model: target, on } });
      await queryClient.invalidateQueries({ queryKey: ['models'] });
      toast(models.deprecated(target, on));
      onClose();
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure));
    }
  };
  return (
    <Modal
      title={models.deprecateTitle(model.id)}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{texts.common.cancel}</Button>
          <Button tone="danger-filled" onClick={() => void submit()}>
            {models.deprecate}
          </Button>
        </>
      }
    >
      <p>{models.deprecateText}</p>
      <Select
        label={models.deprecateWhat}
        value={target}
        onValue={setTarget}
        options={[
          { value: model.id, label: models.allVersions },
          ...model.versions.map(({ version }) => ({ value: `${model.id}@${version}`, label: version })),
        ]}
      />
      <TextField
        label={models.deprecateOn}
        hint={models.deprecateHint}
        type="date"
        min={earliest()}
        value={on}
        onValue={setOn}
        error={error}
      />
    </Modal>
  );
}
