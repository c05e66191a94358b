import type { ComponentChildren } from 'preact';
import type { AuditChange, AuditEntry, AuditValue } from '../../api/types.ts';
import { Badge, type BadgeTone } from '../../components/feedback.tsx';
import { moneyExact } from '../../format/numbers.ts';
import { dateTime } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { labelOf } from '../../texts/label-of.ts';

const { audit } = texts;

function toneOf(action: string): BadgeTone {
  if (/\.(created|added|resumed)$/.test(action)) return 'good';
  return /\.(changed|rotated)$/.test(action) ? 'plain' : 'warn';
}

export function Action({ action }: { action: string }) {
  return <Badge tone={toneOf(action)}>{labelOf(audit.actions, action)}</Badge>;
}

/** The key, the user of a command, or the server. Members are not told which operator it was. */
export function actorName({ actor }: AuditEntry): string {
  if (actor.type === 'server') return audit.server;
  if (actor.name === null) return audit.operator;
  return actor.host === null ? actor.name : audit.onHost(actor.name, actor.host);
}

/** A name with the account that it belongs to, where that says something. */
export function Named({ name, account }: { name: string; account: string | null | undefined }) {
  return (
    <span class="truncate audit-name" dir="auto" title={account ? `${name} · ${account}` : name}>
      {name}
      {account && <span class="muted wide-only"> · {account}</span>}
    </span>
  );
}

export function from({ via, address }: AuditEntry): string {
  const name = labelOf(audit.vias, via);
  return address === null ? name : `${name} · ${address}`;
}

export function valueText(field: string, value: AuditValue, zone: string): string {
  if (value === null) return audit.none;
  if (Array.isArray(value)) return value.length === 0 ? audit.none : value.join(', ');
  if (typeof value === 'boolean') return value ? audit.yes : audit.no;
  if (typeof value === 'number') return field.endsWith('_usd') ? moneyExact(value) : String(value);
  return field.endsWith('_at') ? `${dateTime(value, zone)} ${zone}` : value;
}

export const fieldName = (field: string): string => labelOf(audit.fieldNames, field);

/** Something new had no values before. */
export const isNew = ({ action }: AuditEntry): boolean => /\.(created|added|used)$/.test(action);

export function changeText({ field, before, after }: AuditChange, entry: AuditEntry, zone: string): string {
  const to = valueText(field, after, zone);
  return isNew(entry) ? `${fieldName(field)}: ${to}` : `${fieldName(field)}: ${valueText(field, before, zone)} → ${to}`;
}

export function Summary({ entry, zone }: { entry: AuditEntry; zone: string }): ComponentChildren {
  const text = entry.changes.map((change) => changeText(change, entry, zone)).join('; ');
  return (
    <span class="truncate audit-changes" title={text}>
      {text || '–'}
    </span>
  );
}
