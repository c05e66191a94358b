/** Stable names: programs filter by them. */
export const AUDIT_ACTIONS = [
  'account.created',
  'account.changed',
  'account.suspended',
  'account.resumed',
  'account.deleted',
  'account.erased',
  'account.used',
  'key.created',
  'key.changed',
  'key.rotated',
  'key.revoked',
  'model.added',
  'model.removed',
  'model.deprecated',
  'model.retired',
] as const;

export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** How a change was asked for. `server`: it made the change by itself, such as the first key. */
export const AUDIT_VIAS = ['api', 'console', 'cli', 'server'] as const;

export type AuditVia = (typeof AUDIT_VIAS)[number];

/** Names are those at the time of the change, here and below. */
export interface AuditActor {
  /** Id of the key; `operator` for the command line, `server` for the server itself. */
  id: string;
  /** Name of the key, or of the operator's user on the host. */
  name: string | null;
  accountId: string | null;
  accountName: string | null;
  /** Where the command or the server ran. Null for keys. */
  host: string | null;
}

/** Who asks for a change, and from where. */
export interface ChangeOrigin {
  via: AuditVia;
  actor: AuditActor;
  requestId: string | null;
  /** Address of the client. */
  address: string | null;
}

export interface AuditTarget {
  kind: 'account' | 'key' | 'model';
  id: string;
  name: string;
  /** The account that it belongs to, or is. Null for models. */
  accountId: string | null;
  accountName: string | null;
}

export type AuditValue = string | number | boolean | null | readonly string[];

export interface FieldChange {
  field: string;
  before: AuditValue;
  after: AuditValue;
}

export interface AuditedChange {
  action: AuditAction;
  target: AuditTarget;
  changes: readonly FieldChange[];
}

/** One change that was made. Never holds secrets. */
export interface AuditEntry extends ChangeOrigin, AuditedChange {
  id: string;
  /** Milliseconds since 1970. */
  time: number;
}
