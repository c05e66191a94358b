import type { AuditEntry, AuditVia, FieldChange } from '@baobab/core/domain/audit/entry.ts';
import { AUDIT_ACTIONS, AUDIT_VIAS } from '@baobab/core/domain/audit/entry.ts';
import { usdNumber } from '@baobab/core/domain/money.ts';
import { isoTime } from '@baobab/core/domain/time/dates.ts';
import { type Static, Type } from 'typebox';
import { snake } from '../../../../validation/names.ts';
import { shortText } from '../../../body/bounded.ts';

const nullableText = Type.Union([Type.String(), Type.Null()]);
const time = { anyOf: [{ format: 'date-time' }, { format: 'date' }] };

const page = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50, description: 'Entries on a page' })),
  after: Type.Optional(shortText({ minLength: 1, description: '`next_cursor` of the page before' })),
  start: Type.Optional(shortText({ description: 'Inclusive', documented: time })),
  end: Type.Optional(shortText({ description: 'Exclusive', documented: time })),
  action: Type.Optional(Type.Enum([...AUDIT_ACTIONS], { description: 'What was done' })),
  target: Type.Optional(shortText({ minLength: 1, description: 'Id of the key or account, or slug of the model' })),
};

/** For keys of the account itself. */
export const OwnAuditQuery = Type.Object(page);

export const AuditQuery = Type.Object({
  ...page,
  account: Type.Optional(shortText({ minLength: 1, description: 'Id or name of the account that was changed' })),
  actor: Type.Optional(
    shortText({
      minLength: 1,
      description: 'Id of the key that was used, `operator` for the command line, `server` for the server itself',
    }),
  ),
});

const value = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Array(Type.String()), Type.Null()], {
  description: 'Long texts and lists are cut',
});

export const AuditEntryShape = Type.Object({
  id: Type.String(),
  object: Type.Literal('audit_entry'),
  time: Type.String(),
  action: Type.Enum([...AUDIT_ACTIONS]),
  via: Type.Enum([...AUDIT_VIAS]),
  actor: Type.Object(
    {
      type: Type.Enum(['key', 'operator', 'server'], {
        description: '`operator`: on the command line. For keys of other accounts, every operator',
      }),
      id: nullableText,
      name: Type.Union([Type.String(), Type.Null()], { description: 'Of the key, or of the user on the host' }),
      account_id: nullableText,
      account_name: nullableText,
      host: nullableText,
    },
    { description: 'Names are those at the time of the change' },
  ),
  target: Type.Object({
    type: Type.Enum(['account', 'key', 'model']),
    id: Type.String(),
    name: Type.String(),
    account_id: nullableText,
    account_name: nullableText,
  }),
  changes: Type.Array(Type.Object({ field: Type.String(), before: value, after: value }), {
    description: 'Fields of the target as the API names them; never secrets',
  }),
  request_id: nullableText,
  address: Type.Union([Type.String(), Type.Null()], { description: 'Of the client' }),
});

export const AuditList = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(AuditEntryShape),
  has_more: Type.Boolean(),
  next_cursor: nullableText,
});

const BUDGET = 'monthlyBudgetNanoUsd';

function changeToWire({ field, before, after }: FieldChange): Static<typeof AuditEntryShape>['changes'][number] {
  const convert = (each: FieldChange['before']) => {
    if (typeof each === 'number' && field === BUDGET) return usdNumber(each);
    if (typeof each === 'number' && field.endsWith('At')) return isoTime(each);
    return Array.isArray(each) ? [...(each as readonly string[])] : (each as string | number | boolean | null);
  };
  const name = field === BUDGET ? 'monthly_budget_usd' : snake(field);
  return { field: name, before: convert(before), after: convert(after) };
}

const typeOf = (via: AuditVia) => (via === 'cli' ? 'operator' : via === 'server' ? 'server' : 'key');

export const auditEntryToWire = (entry: AuditEntry): Static<typeof AuditEntryShape> => ({
  id: entry.id,
  object: 'audit_entry',
  time: isoTime(entry.time),
  action: entry.action,
  via: entry.via,
  actor: {
    type: typeOf(entry.via),
    id: entry.actor.id,
    name: entry.actor.name,
    account_id: entry.actor.accountId,
    account_name: entry.actor.accountName,
    host: entry.actor.host,
  },
  target: {
    type: entry.target.kind,
    id: entry.target.id,
    name: entry.target.name,
    account_id: entry.target.accountId,
    account_name: entry.target.accountName,
  },
  changes: entry.changes.map(changeToWire),
  request_id: entry.requestId,
  address: entry.address,
});

/** What a key of the account may know: not which operator it was, nor from where. */
export function ownEntryToWire(entry: AuditEntry, accountId: string): Static<typeof AuditEntryShape> {
  const wire = auditEntryToWire(entry);
  if (entry.actor.accountId === accountId) return wire;
  const type = wire.actor.type === 'server' ? 'server' : 'operator';
  const actor = { type, id: null, name: null, account_id: null, account_name: null, host: null } as const;
  return { ...wire, actor, request_id: null, address: null };
}
