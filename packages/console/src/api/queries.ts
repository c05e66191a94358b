import { isOperator, may } from '@baobab/core/domain/operations.ts';
import { MINUTE_MS } from '@baobab/core/domain/time/durations.ts';
import type { Range } from '../address/range.ts';
import { call, callPages } from './client.ts';
import { useQuery } from './query.ts';
import { useAccountFilter, useSession } from './session.ts';
import type {
  Account,
  Engine,
  Key,
  List,
  Model,
  OwnKey,
  PerformanceReport,
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

export function useUsage(range: Range, bucket: string, filters: UsageFilters, enabled = true) {
  const query = usageQuery(range, bucket, filters, useAccountFilter());
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
