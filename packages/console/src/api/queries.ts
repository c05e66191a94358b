import { isOperator, may } from '@baobab/core/domain/operations.ts';
import { MINUTE_MS } from '@baobab/core/domain/time/durations.ts';
import type { Range } from '../address/range.ts';
import { call, callPages, readStart, send } from './client.ts';
import { usePages } from './pages.ts';
import { useQuery } from './query.ts';
import { ALL_ACCOUNTS, useAccountFilter, useSession } from './session.ts';
import type {
  Account,
  AuditEntry,
  Batch,
  Engine,
  Key,
  List,
  Model,
  OwnKey,
  PerformanceReport,
  RequestDetail,
  RequestEntry,
  Session,
  StoredFile,
  SystemReport,
  UsageReport,
} from './types.ts';

export interface UsageFilters {
  groupBy: string;
  model?: string | undefined;
  key?: string | undefined;
  region?: string | undefined;
}

/** Parameters of GET /v1/usage for a view. */
export function usageQuery(range: Range, bucket: string, filters: UsageFilters, account: string | undefined) {
  return {
    start: range.start,
    end: range.end,
    bucket,
    time_zone: range.zone === 'UTC' ? undefined : range.zone,
    group_by: filters.groupBy,
    model: filters.model,
    key: filters.key,
    region: filters.region,
    account,
  };
}

/** Groups with rows of their own, those that cost most. */
const MOST_GROUPS = 50;

export function useUsage(
  range: Range,
  bucket: string,
  filters: UsageFilters,
  { enabled = true, top = MOST_GROUPS }: { enabled?: boolean; top?: number } = {},
) {
  const view = usageQuery(range, bucket, filters, useAccountFilter());
  const query = filters.groupBy === '' ? view : { ...view, top };
  return useQuery<UsageReport>({
    key: ['usage', query],
    fetch: (signal) => call('/v1/usage', { query, signal }),
    enabled,
    refetchMs: MINUTE_MS,
  });
}

export function usePerformance(range: Range, bucket: string, filters: { model?: string; key?: string } = {}) {
  const account = useAccountFilter();
  const query = {
    start: range.start,
    end: range.end,
    bucket,
    time_zone: range.zone === 'UTC' ? undefined : range.zone,
    account,
    ...filters,
  };
  return useQuery<PerformanceReport>({
    key: ['performance', query],
    fetch: (signal) => call('/v1/performance', { query, signal }),
    refetchMs: MINUTE_MS,
  });
}

export function useModels(enabled = true) {
  return useQuery<List<Model>>({ key: ['models'], fetch: (signal) => call('/v1/models', { signal }), enabled });
}

export function useOwnKey() {
  return useQuery<OwnKey>({
    key: ['own-key'],
    fetch: (signal) => call('/v1/keys/me', { signal }),
    refetchMs: MINUTE_MS,
  });
}

/** Where the session manages keys: those of all accounts, or of its own. */
export function keysPath(admin: boolean): string {
  return admin ? '/v1/admin/keys' : '/v1/keys';
}

export function useKeys() {
  const session = useSession();
  const admin = isOperator(session);
  const account = useAccountFilter();
  const query = { account: account === '*' ? undefined : account };
  return useQuery<List<Key>>({
    key: ['keys', query],
    fetch: (signal) => callPages(keysPath(admin), { query, signal }),
    enabled: may(session, 'keys.list'),
  });
}

export function useAccounts() {
  return useQuery<List<Account>>({
    key: ['accounts'],
    fetch: (signal) => callPages('/v1/admin/accounts', { signal }),
    enabled: isOperator(useSession()),
  });
}

export function useSystem() {
  return useQuery<SystemReport>({
    key: ['system'],
    fetch: (signal) => call('/v1/admin/system', { signal }),
    enabled: isOperator(useSession()),
    refetchMs: 10_000,
  });
}

export function useEngines() {
  return useQuery<List<Engine>>({
    key: ['engines'],
    fetch: (signal) => call('/v1/admin/engines', { signal }),
    enabled: isOperator(useSession()),
    refetchMs: 10_000,
  });
}

/** All files of the account, of one purpose or of any. */
export function useFiles(purpose = '') {
  return useQuery<List<StoredFile>>({
    key: ['files', purpose],
    fetch: (signal) => callPages('/v1/files', { query: { purpose }, signal }),
  });
}

const MOST_BATCHES = 100;

export const useBatches = () =>
  usePages<Batch>({ name: 'batches', path: '/v1/batches', pageSize: MOST_BATCHES, refetchMs: 30_000 });

/** One batch, which need not be in the list that is loaded. */
export function useBatch(id: string) {
  return useQuery<Batch>({
    key: ['batch', id],
    fetch: (signal) => call(`/v1/batches/${encodeURIComponent(id)}`, { signal }),
    keep: false,
  });
}

/** The beginning of a file, about `most` characters. Undefined id: there is none. */
export function useFileStart(id: string | null | undefined, most: number) {
  return useQuery<string>({
    key: ['file-start', id, most],
    fetch: async (signal) => {
      const { body } = await send(`/v1/files/${id}/content`, { signal });
      return body === null ? '' : readStart(body, most);
    },
    enabled: typeof id === 'string',
    keep: false,
  });
}

export interface RequestFilters {
  status?: string | undefined;
  model?: string | undefined;
  key?: string | undefined;
  endpoint?: string | undefined;
  region?: string | undefined;
  request_id?: string | undefined;
}

export function useRequests(range: Range, filters: RequestFilters) {
  const query = { ...filters, account: useAccountFilter() };
  return usePages<RequestEntry>({ name: 'requests', path: '/v1/requests', query, range });
}

export function useRequest(id: string) {
  return useQuery<RequestDetail>({
    key: ['request', id],
    fetch: (signal) => call(`/v1/requests/${encodeURIComponent(id)}`, { signal }),
    keep: false,
  });
}

export interface AuditFilters {
  action?: string | undefined;
  target?: string | undefined;
  actor?: string | undefined;
}

/** Where the session reads the audit log: that of all accounts, or of its own. */
const auditPath = (session: Session): string => (isOperator(session) ? '/v1/admin/audit' : '/v1/audit');

export function useAudit(range: Range, { actor, ...filters }: AuditFilters) {
  const session = useSession();
  const account = useAccountFilter();
  const query = {
    ...filters,
    actor: isOperator(session) ? actor : undefined,
    account: account === ALL_ACCOUNTS ? undefined : account,
  };
  return usePages<AuditEntry>({ name: 'audit', path: auditPath(session), query, range });
}

/** An entry that is not in the list, found by its time. */
export function useAuditEntry(id: string, { time, enabled }: { time: string; enabled: boolean }) {
  const path = auditPath(useSession());
  const end = new Date((Date.parse(time) || 0) + 1).toISOString();
  return useQuery<AuditEntry | null>({
    key: ['audit-entry', id],
    fetch: async (signal) => {
      const found = await call<List<AuditEntry>>(path, { query: { start: time, end, limit: 200 }, signal });
      return found.data.find((each) => each.id === id) ?? null;
    },
    enabled,
    keep: false,
  });
}

export function useHealth() {
  return useQuery({
    key: ['health'],
    fetch: async (signal) => {
      await call('/readyz', { signal });
      return true;
    },
    refetchMs: 15_000,
  });
}
