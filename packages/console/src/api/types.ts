import type { AccountShape } from '@baobab/server/http/endpoints/admin/accounts/schema.ts';
import type { AuditEntryShape } from '@baobab/server/http/endpoints/admin/audit/schema.ts';
import type { EngineShape } from '@baobab/server/http/endpoints/admin/engines/schema.ts';
import type { ServerShape } from '@baobab/server/http/endpoints/admin/servers/schema.ts';
import type { SystemShape } from '@baobab/server/http/endpoints/admin/system/schema.ts';
import type { BatchObject } from '@baobab/server/http/endpoints/batches/schema.ts';
import type { EVENTS } from '@baobab/server/http/endpoints/events/schema.ts';
import type { File } from '@baobab/server/http/endpoints/files/schema.ts';
import type { OwnKeyShape } from '@baobab/server/http/endpoints/keys/own-key/schema.ts';
import type { IssuedKeyShape, KeyShape } from '@baobab/server/http/endpoints/keys/schema.ts';
import type { Model as ModelShape } from '@baobab/server/http/endpoints/models/schema.ts';
import type { PerformanceReport as PerformanceShape } from '@baobab/server/http/endpoints/performance/schema.ts';
import type {
  RequestDetail as RequestDetailShape,
  RequestEntryShape,
} from '@baobab/server/http/endpoints/requests/schema.ts';
import type { SessionShape } from '@baobab/server/http/endpoints/sessions/schema.ts';
import type { UsageResponse } from '@baobab/server/http/endpoints/usage/schema.ts';
import type { Static } from 'typebox';

/** What the API answers, from the schemas that docs/openapi.json is written from. Only types: no byte of them is in the bundle. */
export type Session = Static<typeof SessionShape>;
export type UsageReport = Static<typeof UsageResponse>;
export type UsageBucket = UsageReport['buckets'][number];
export type UsageFigures = UsageReport['totals'];
export type PerformanceReport = Static<typeof PerformanceShape>;
export type PerformanceFigures = PerformanceReport['totals'];
export type Percentiles = NonNullable<PerformanceFigures['latency_ms']>;
export type RequestEntry = Static<typeof RequestEntryShape>;
export type RequestDetail = Static<typeof RequestDetailShape>;
export type Attempt = RequestDetail['attempts'][number];
export type RequestText = NonNullable<RequestDetail['text']>;
export type AuditEntry = Static<typeof AuditEntryShape>;
export type AuditChange = AuditEntry['changes'][number];
export type AuditValue = AuditChange['before'];
export type OwnKey = Static<typeof OwnKeyShape>;
/** The limits that hold for a key, or for one without limits of its own, and where each was set. */
export type AppliedLimits = OwnKey['limits'];
export type Key = Static<typeof KeyShape>;
export type NewKey = Static<typeof IssuedKeyShape>;
export type Account = Static<typeof AccountShape>;
export type Model = Static<typeof ModelShape>;
export type Modality = Model['modality'];
export type StoredFile = Static<typeof File>;
export type Batch = Static<typeof BatchObject>;
export type Engine = Static<typeof EngineShape>;
export type KnownServer = Static<typeof ServerShape>;
/** Of `/readyz`. */
export interface Readiness {
  status: 'ready' | 'degraded' | 'not ready';
  reasons: string[];
  since?: string;
}
export type SystemReport = Static<typeof SystemShape> & {
  configuration: { files?: { quota_bytes?: number; quota_files?: number } };
};
export type Counters = Static<(typeof EVENTS)['counters']>;

/** A list, or a page of one. */
export interface List<T> {
  data: T[];
  has_more?: boolean;
  last_id?: string | null;
  next_cursor?: string | null;
}
