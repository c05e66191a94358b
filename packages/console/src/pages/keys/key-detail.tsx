import { isOperator } from '@baobab/core/domain/operations.ts';
import { useState } from 'preact/hooks';
import { useNow } from '../../address/range.ts';
import { href } from '../../address/router.ts';
import { call } from '../../api/client.ts';
import { keysPath } from '../../api/queries.ts';
import { queryClient } from '../../api/query.ts';
import { useSession } from '../../api/session.ts';
import type { Key, NewKey } from '../../api/types.ts';
import { Button, LinkButton } from '../../components/button.tsx';
import { Copyable } from '../../components/copying.tsx';
import { Details } from '../../components/details.tsx';
import { useSave } from '../../components/form.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { ago, dateTime } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { BudgetMeter, Spend } from '../spend/spend.tsx';
import { RevokeKey, RotateKey } from './end-key.tsx';
import { KeyRights, KeyStatus, keyState } from './key-parts.tsx';
import { LIMIT_FIELDS, LimitFields, type Limits, limitsOf, limitsToWire } from './limit-fields.tsx';

export interface KeyDetailProps {
  keyRecord: Key;
  spend: number;
  onClose: () => void;
  onRotated: (key: NewKey) => void;
}

export function KeyDetail({ keyRecord: key, spend, onClose, onRotated }: KeyDetailProps) {
  const admin = isOperator(useSession());
  const now = Math.max(useNow(), Date.now());
  const [limits, setLimits] = useState<Limits>(limitsOf(key));
  const [asking, setAsking] = useState<'revoke' | 'rotate'>();
  const active = keyState(key, now) === 'active';
  const changed = JSON.stringify(limits) !== JSON.stringify(limitsOf(key));
  const path = `${keysPath(admin)}/${key.id}`;

  const { error, save } = useSave<Limits>({
    fields: LIMIT_FIELDS,
    show: setLimits,
    saved: texts.keys.saved(key.name),
    async write(draft) {
      await call(path, { method: 'POST', body: limitsToWire(draft) });
      await queryClient.invalidateQueries({ queryKey: ['keys'] });
    },
  });
  const { columns } = texts.keys;
  const budget = key.monthly_budget_usd;
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
            <Button tone="primary" disabled={!changed} onClick={() => save(limitsOf(key), limits)}>
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
            [
              columns.used,
              key.last_used_at === null
                ? texts.common.never
                : `${ago(key.last_used_at, now)}, ${dateTime(key.last_used_at, 'UTC')} UTC`,
            ],
            [texts.keys.createdAt, `${dateTime(key.created_at, 'UTC')} UTC`],
            [
              texts.keys.expiry,
              key.expires_at === null ? texts.common.never : `${dateTime(key.expires_at, 'UTC')} UTC`,
            ],
            [columns.scopes, <KeyRights key="rights" keyRecord={key} />],
            [texts.keys.models, list(key.allowed_models)],
            [texts.keys.regions, list(key.allowed_regions)],
            [texts.keys.addresses, list(key.allowed_addresses)],
            [columns.spend, <Spend key="spend" spend={spend} budget={budget} />],
          ]}
        />
        <BudgetMeter spend={spend} budget={budget} />
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
        {active && <LimitFields limits={limits} onChange={setLimits} error={error} />}
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
