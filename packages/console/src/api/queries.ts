import { isOperator, may } from '@baobab/core/domain/operations.ts';
import { MINUTE_MS } from '@baobab/core/domain/time/durations.ts';
import type { Range } from '../address/range.ts';
import { address, call, callPages, readStart, send } from './client.ts';
import { usePages } from './pages.ts';
import { useQuery } from './query.ts';
import { ALL_ACCOUNTS, useAccountFilter, useSession, useWorkAccount } from './session.ts';
import type {
  Account,
  AuditEntry,
  Batch,
  Engine,
  Key,
  KnownServer,
  List,
  Modality,
  Model,
  OwnKey,
  PerformanceReport,
  Readiness,
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

export function usePerformance(
  range: Range,
  bucket: string,
  { modality, enabled = true }: { modality?: Modality | undefined; enabled?: boolean } = {},
) {
  const account = useAccountFilter();
  const query = {
    start: range.start,
    end: range.end,
    bucket,
    time_zone: range.zone === 'UTC' ? undefined : range.zone,
    account,
    modality,
  };
  return useQuery<PerformanceReport>({
    key: ['performance', query],
    fetch: (signal) => call('/v1/performance', { query, signal }),
    enabled,
    refetchMs: MINUTE_MS,
  });
}

export function useModels(enabled = true) {
  const { id, query } = useWorkAccount();
  return useQuery<List<Model>>({
    key: ['models', id],
    fetch: (signal) => call('/v1/models', { query, signal }),
    enabled,
  });
}

/** Also models that cannot be served here, or that the key may not call. */
export function useCatalog(enabled = true) {
  const { id, query: ofAccount } = useWorkAccount();
  const query = { status: 'all', ...ofAccount };
  return useQuery<List<Model>>({
    key: ['models', id, 'all'],
    fetch: (signal) => call('/v1/models', { query, signal }),
    enabled,
  });
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

/** Of a list that is searched by the server. */
const MOST_FOUND = 20;

/** The newest keys, or those that match. */
export function useKeys(search = '') {
  const session = useSession();
  const account = useAccountFilter();
  const query = { account: account === ALL_ACCOUNTS ? undefined : account, search, order: 'desc', limit: MOST_FOUND };
  return useQuery<List<Key>>({
    key: ['keys', query],
    fetch: (signal) => call(keysPath(isOperator(session)), { query, signal }),
    enabled: may(session, 'keys.list'),
  });
}

/** Rows that are sorted and filtered here. There are more pages of them on large servers only. */
const MOST_LISTED = 1_000;

export function useKeyPages(search: string) {
  const session = useSession();
  const account = useAccountFilter();
  return usePages<Key>({
    name: 'keys',
    path: keysPath(isOperator(session)),
    query: { account: account === ALL_ACCOUNTS ? undefined : account, search, order: 'desc' },
    pageSize: MOST_LISTED,
    enabled: may(session, 'keys.list'),
  });
}

/** One key, which need not be in the list that is loaded. */
export function useKey(id: string | undefined, known?: Key) {
  const session = useSession();
  const found = useQuery<List<Key>>({
    key: ['keys', 'one', id],
    fetch: (signal) => call(keysPath(isOperator(session)), { query: { search: id, limit: 1 }, signal }),
    enabled: id !== undefined && known === undefined && may(session, 'keys.list'),
    keep: false,
  });
  return known ?? found.data?.data.find((each) => each.id === id);
}

/** The newest accounts, or those that match. */
export function useAccounts(search = '') {
  const query = { search, order: 'desc', limit: MOST_FOUND };
  return useQuery<List<Account>>({
    key: ['accounts', query],
    fetch: (signal) => call('/v1/admin/accounts', { query, signal }),
    enabled: isOperator(useSession()),
  });
}

export const useAccountPages = (search: string) =>
  usePages<Account>({
    name: 'accounts',
    path: '/v1/admin/accounts',
    query: { search, order: 'desc' },
    pageSize: MOST_LISTED,
  });

/** One account, which need not be in the list that is loaded. Only for operators. */
export function useAccount(id: string | undefined, known?: Account) {
  const session = useSession();
  const found = useQuery<List<Account>>({
    key: ['accounts', 'one', id],
    fetch: (signal) => call('/v1/admin/accounts', { query: { search: id, limit: 1 }, signal }),
    enabled: id !== undefined && id !== ALL_ACCOUNTS && known === undefined && isOperator(session),
    keep: false,
  });
  return known ?? found.data?.data.find((each) => each.id === id);
}

/** Accounts and keys with a monthly budget. */
export function useBudgets<T extends Account | Key>(path: '/v1/admin/accounts' | '/v1/admin/keys') {
  const account = useAccountFilter();
  const isOfOne = path === '/v1/admin/keys' && account !== ALL_ACCOUNTS;
  const query = { has_budget: 'true', limit: MOST_LISTED, account: isOfOne ? account : undefined };
  return useQuery<List<T>>({
    key: [path === '/v1/admin/keys' ? 'keys' : 'accounts', query],
    fetch: (signal) => call(path, { query, signal }),
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

/** Known without a session, so also while the database is away. */
export function useReadiness() {
  return useQuery<Readiness>({
    key: ['readiness'],
    async fetch(signal) {
      const answer = await fetch('/readyz', { signal });
      return (await answer.json()) as Readiness;
    },
    refetchMs: 2_000,
  });
}

export function useServers() {
  return useQuery<List<KnownServer>>({
    key: ['servers'],
    fetch: (signal) => call('/v1/admin/servers', { signal }),
    enabled: isOperator(useSession()),
    refetchMs: 5_000,
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
  const { id, query } = useWorkAccount();
  return useQuery<List<StoredFile>>({
    key: ['files', id, purpose],
    fetch: (signal) => callPages('/v1/files', { query: { purpose, ...query }, signal }),
  });
}

export const fileAddress = (id: string, query: ReturnType<typeof useWorkAccount>['query']): string =>
  address(`/v1/files/${id}/content`, query);

const MOST_BATCHES = 100;

export function useBatches() {
  const { query } = useWorkAccount();
  return usePages<Batch>({ name: 'batches', path: '/v1/batches', query, pageSize: MOST_BATCHES, refetchMs: 30_000 });
}

/** One batch, which need not be in the list that is loaded. */
export function useBatch(id: string) {
  const { query } = useWorkAccount();
  return useQuery<Batch>({
    key: ['batch', id],
    fetch: (signal) => call(`/v1/batches/${encodeURIComponent(id)}`, { query, signal }),
    keep: false,
  });
}

/** The beginning of a file, about `most` characters. Undefined id: there is none. */
export function useFileStart(id: string | null | undefined, most: number) {
  const { query } = useWorkAccount();
  return useQuery<string>({
    key: ['file-start', id, most],
    fetch: async (signal) => {
      const { body } = await send(`/v1/files/${id}/content`, { query, signal });
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
