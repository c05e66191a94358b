import { useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import { queryClient } from '../../api/query.ts';
import type { Key, NewKey } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { optionsOf, Select } from '../../components/choices.tsx';
import { toast, toastFailure } from '../../components/feedback.tsx';
import { TextField } from '../../components/fields.tsx';
import { Modal } from '../../components/overlay.tsx';
import { ago } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';

interface EndKeyProps {
  keyRecord: Key;
  path: string;
  onClose: () => void;
}

/** Says what stops working. Asks for the name only if the key was used today. */
export function RevokeKey({ keyRecord: key, path, onClose, onDone }: EndKeyProps & { onDone: () => void }) {
  const [typed, setTyped] = useState('');
  const [busy, setBusy] = useState(false);
  const now = Date.now();
  const used = key.last_used_at;
  const usedToday = used?.slice(0, 10) === new Date(now).toISOString().slice(0, 10);
  const revoke = async () => {
    setBusy(true);
    try {
      await call(`${path}/revoke`, { method: 'POST' });
      toast(texts.keys.revokeDone(key.name));
      await queryClient.invalidateQueries({ queryKey: ['keys'] });
      onDone();
    } catch (error) {
      toastFailure(error);
      setBusy(false);
    }
  };
  return (
    <Modal
      title={texts.keys.revokeTitle(key.name)}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{texts.common.cancel}</Button>
          <Button
            tone="danger-filled"
            disabled={busy || (usedToday && typed !== key.name)}
            onClick={() => void revoke()}
          >
            {texts.keys.revoke}
          </Button>
        </>
      }
    >
      <p>{used === null ? texts.keys.revokeUnused : texts.keys.revokeText(ago(used, now))}</p>
      {usedToday && <TextField label={texts.keys.revokeConfirm(key.name)} value={typed} onValue={setTyped} />}
    </Modal>
  );
}

export function RotateKey({ keyRecord: key, path, onClose, onDone }: EndKeyProps & { onDone: (key: NewKey) => void }) {
  const [grace, setGrace] = useState('86400');
  const [busy, setBusy] = useState(false);
  const rotate = async () => {
    setBusy(true);
    try {
      const created = await call<NewKey>(`${path}/rotate`, { method: 'POST', body: { grace_seconds: Number(grace) } });
      await queryClient.invalidateQueries({ queryKey: ['keys'] });
      onDone(created);
    } catch (error) {
      toastFailure(error);
      setBusy(false);
    }
  };
  return (
    <Modal
      title={texts.keys.rotateTitle(key.name)}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{texts.common.cancel}</Button>
          <Button tone="primary" disabled={busy} onClick={() => void rotate()}>
            {texts.keys.rotate}
          </Button>
        </>
      }
    >
      <p>{texts.keys.rotateText}</p>
      <Select label={texts.keys.rotateGrace} options={optionsOf(texts.keys.graces)} value={grace} onValue={setGrace} />
    </Modal>
  );
}
