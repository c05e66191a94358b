import { isOperator } from '@baobab/core/domain/operations.ts';
import { useState } from 'preact/hooks';
import { useNow } from '../../address/range.ts';
import { href } from '../../address/router.ts';
import { exactTime } from '../../address/zone.ts';
import { call } from '../../api/client.ts';
import { keysPath, useAccount } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import { useSession } from '../../api/session.ts';
import type { Key, NewKey } from '../../api/types.ts';
import { Button, LinkButton } from '../../components/button.tsx';
import { optionsOf, Select } from '../../components/choices.tsx';
import { Copyable } from '../../components/copying.tsx';
import { Details } from '../../components/details.tsx';
import { toast, toastFailure } from '../../components/feedback.tsx';
import { TextField } from '../../components/fields.tsx';
import { useSave } from '../../components/form.tsx';
import { Modal, Sheet } from '../../components/overlay.tsx';
import { ago } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { BudgetMeter, Spend } from '../spend/spend.tsx';
import { usedAgo } from './key-columns.tsx';
import { draftOf, draftToWire, KEY_DRAFT_FIELDS, type KeyDraft, KeyFields } from './key-fields.tsx';
import { KeyRights, KeyStatus, keyState } from './key-parts.tsx';

export interface KeyDetailProps {
  keyRecord: Key;
  spend: number;
  onClose: () => void;
  onRotated: (key: NewKey) => void;
}

export function KeyDetail({ keyRecord: key, spend, onClose, onRotated }: KeyDetailProps) {
  const admin = isOperator(useSession());
  const now = useNow();
  const account = useAccount(key.account_id);
  const [draft, setDraft] = useState<KeyDraft>(draftOf(key));
  const [asking, setAsking] = useState<'revoke' | 'rotate'>();
  const active = keyState(key, now) === 'active';
  const changed = JSON.stringify(draft) !== JSON.stringify(draftOf(key));
  const path = `${keysPath(admin)}/${key.id}`;

  const { error, save } = useSave<KeyDraft>({
    fields: KEY_DRAFT_FIELDS,
    body: draftToWire(draft),
    show: setDraft,
    saved: texts.keys.saved(key.name),
    async write(next) {
      await call(path, { method: 'POST', body: draftToWire(next) });
      await queryClient.invalidateQueries({ queryKey: ['keys'] });
    },
  });
  const { columns } = texts.keys;
  const { monthly_budget_usd: budget, monthly_budget_from: from } = key.limits;
  const list = (values: string[]) => (values.length === 0 ? texts.common.all : values.join(', '));
  return (
    <Sheet
      title={key.name}
      about={<Copyable text={key.id} />}
      onClose={onClose}
      foot={
        active && (
          <>
            <Button tone="danger" icon="trash" onClick={() => setAsking('revoke')}>
              {texts.keys.revoke}
            </Button>
            <Button icon="rotate" onClick={() => setAsking('rotate')}>
              {texts.keys.rotate}
            </Button>
            <Button
              tone="primary"
              disabled={!changed || draft.name.trim() === ''}
              onClick={() => save(draftOf(key), draft)}
            >
              {texts.common.save}
            </Button>
          </>
        )
      }
    >
      <div class="stack">
        <Details
          rows={[
            [columns.status, <KeyStatus key="status" keyRecord={key} now={now} />],
            [
              columns.key,
              <span key="prefix" class="mono">
                {key.prefix}…
              </span>,
            ],
            [columns.used, key.last_used_at === null ? texts.common.never : usedAgo(key.last_used_at, now)],
            [texts.keys.createdAt, exactTime(key.created_at)],
            [texts.keys.expiry, key.expires_at === null ? texts.common.never : exactTime(key.expires_at)],
            !active && [columns.scopes, <KeyRights key="rights" keyRecord={key} />],
            !active && [texts.keys.models, list(key.allowed_models)],
            !active && [texts.keys.regions, list(key.allowed_regions)],
            [texts.keys.addresses, list(key.allowed_addresses)],
            account !== undefined && [columns.account, account.name],
            [columns.spend, <Spend key="spend" spend={spend} budget={budget} isOfAccount={from === 'account'} />],
          ]}
        />
        {from === 'key' && <BudgetMeter spend={spend} budget={budget} />}
        {key.original_id !== key.id && <p class="small muted">{texts.keys.spendShared}</p>}
        <div class="row row-wrap">
          <LinkButton size="small" icon="usage" href={href('/usage', { key: key.id, group: 'model' })}>
            {texts.keys.usageOf}
          </LinkButton>
          <LinkButton size="small" icon="requests" href={href('/requests', { key: key.id })}>
            {texts.keys.requestsOf}
          </LinkButton>
          <LinkButton size="small" icon="audit" href={href('/audit', { target: key.id, range: '365d' })}>
            {texts.keys.changesOf}
          </LinkButton>
        </div>
        {active && <KeyFields draft={draft} onChange={setDraft} error={error} account={account} />}
      </div>
      {asking === 'revoke' && (
        <RevokeKey keyRecord={key} path={path} onClose={() => setAsking(undefined)} onDone={onClose} />
      )}
      {asking === 'rotate' && (
        <RotateKey keyRecord={key} path={path} onClose={() => setAsking(undefined)} onDone={onRotated} />
      )}
    </Sheet>
  );
}

interface EndKeyProps {
  keyRecord: Key;
  path: string;
  onClose: () => void;
}

/** Says what stops working. Asks for the name only if the key was used today. */
function RevokeKey({ keyRecord: key, path, onClose, onDone }: EndKeyProps & { onDone: () => void }) {
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

function RotateKey({ keyRecord: key, path, onClose, onDone }: EndKeyProps & { onDone: (key: NewKey) => void }) {
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
