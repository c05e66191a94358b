import { isOperator } from '@baobab/core/domain/operations.ts';
import { href } from '../../address/router.ts';
import { useAuditEntry } from '../../api/queries.ts';
import { useSession } from '../../api/session.ts';
import type { AuditEntry } from '../../api/types.ts';
import { LinkButton } from '../../components/button.tsx';
import { Copyable } from '../../components/copying.tsx';
import { type Detail, Details } from '../../components/details.tsx';
import { Failure } from '../../components/feedback.tsx';
import { Sheet } from '../../components/overlay.tsx';
import { Skeleton } from '../../components/page.tsx';
import { dateTime } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { labelOf } from '../../texts/label-of.ts';
import { actorName, fieldName, isNew, valueText } from './audit-parts.tsx';

export interface AuditSheetProps {
  id: string;
  /** When it was made: an entry that is not in the list is found by it. */
  time: string;
  /** The row of the list. */
  known: AuditEntry | undefined;
  zone: string;
  onClose: () => void;
}

export function AuditSheet({ id, time, known, zone, onClose }: AuditSheetProps) {
  const found = useAuditEntry(id, { time, enabled: known === undefined && time !== '' });
  const entry = known ?? found.data ?? undefined;
  const { audit } = texts;
  return (
    <Sheet
      title={entry === undefined ? audit.title : labelOf(audit.actions, entry.action)}
      about={<Copyable text={id} />}
      onClose={onClose}
    >
      <div class="stack">
        {found.isError && <Failure error={found.error} onRetry={() => void found.refetch()} />}
        {entry === undefined && found.isPending && time !== '' && <Skeleton height={320} />}
        {entry === undefined && (found.data === null || time === '') && <p class="muted">{audit.gone}</p>}
        {entry && <Facts entry={entry} zone={zone} />}
        {entry && <Fields entry={entry} zone={zone} />}
      </div>
    </Sheet>
  );
}

/** Where the console shows what was changed. */
function targetAddress({ type, id }: AuditEntry['target']): string {
  if (type === 'key') return href('/keys', { key: id, show: 'all' });
  return type === 'model' ? href('/models', { model: id }) : href('/accounts', { open: id });
}

function Facts({ entry, zone }: { entry: AuditEntry; zone: string }) {
  const { audit } = texts;
  const { actor, target } = entry;
  const admin = isOperator(useSession());
  const name = <span dir="auto">{target.name}</span>;
  const rows: Detail[] = [
    [audit.columns.time, `${dateTime(entry.time, zone)} ${zone}`],
    [
      labelOf(audit.targets, target.type),
      // Members have no page of accounts.
      target.type === 'account' && !admin ? (
        name
      ) : (
        <a key="target" href={targetAddress(target)}>
          {name}
        </a>
      ),
    ],
    target.type === 'key' && [audit.account, target.account_name],
    [
      audit.by,
      <span key="actor" dir="auto">
        {actorName(entry)}
        {actor.account_name && <span class="muted"> · {actor.account_name}</span>}
      </span>,
    ],
    [audit.via, labelOf(audit.vias, entry.via)],
    entry.address !== null && [
      audit.address,
      <span key="address" class="mono">
        {entry.address}
      </span>,
    ],
    actor.type === 'server' && !!actor.host && [audit.host, actor.host],
    entry.request_id !== null && [audit.requestId, <Copyable key="request" text={entry.request_id} />],
  ];
  return (
    <>
      <Details rows={rows} />
      <div class="row row-wrap">
        <LinkButton size="small" icon="audit" href={href('/audit', { target: target.id, range: '365d' })}>
          {audit.changesOf[target.type]}
        </LinkButton>
        {admin && actor.type === 'key' && actor.id !== null && (
          <LinkButton size="small" icon="keys" href={href('/audit', { actor: actor.id, range: '365d' })}>
            {audit.changesBy(actorName(entry))}
          </LinkButton>
        )}
      </div>
    </>
  );
}

function Fields({ entry, zone }: { entry: AuditEntry; zone: string }) {
  const { audit } = texts;
  return (
    <section class="stack-tight">
      <h3>{audit.fields}</h3>
      {entry.changes.length === 0 && <p class="muted small">{audit.noFields}</p>}
      <ul class="stack-tight">
        {entry.changes.map(({ field, before, after }) => (
          <li key={field} class="attempt">
            <div class="small muted">{fieldName(field)}</div>
            <div class="audit-values" dir="auto">
              {!isNew(entry) && <span class="muted">{valueText(field, before, zone)} → </span>}
              <span>{valueText(field, after, zone)}</span>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
