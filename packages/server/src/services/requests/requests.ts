import { type Reader, seesKeyName } from '@baobab/core/domain/principal.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { ReportCaller } from '@baobab/core/ports/reports.ts';
import type { KeyRepository } from '@baobab/core/ports/repositories.ts';
import type { RequestEntry, RequestFilter, RequestLog, RequestPosition } from '@baobab/core/ports/request-log.ts';
import { withReportAdvice } from './report-advice.ts';
import type { RequestRecorder } from './request-recorder.ts';

export interface NamedRequest extends RequestEntry {
  /** Null: the key is gone, or its name is not for this reader. */
  keyName: string | null;
}

export interface RequestPage {
  entries: NamedRequest[];
  /** Position of the last entry when there are more. */
  next: RequestPosition | undefined;
}

export interface RequestsService {
  /** Newest first. */
  list(
    filter: RequestFilter,
    page: { limit: number; before?: RequestPosition | undefined; forOperators?: boolean | undefined },
    caller: ReportCaller,
  ): Promise<RequestPage>;
  /** Throws 404 when the account has no such request. Undefined: any account, for operators. */
  get(id: string, accountId: string | undefined, caller: ReportCaller): Promise<NamedRequest>;
  withNames(entries: readonly RequestEntry[], reader: Reader): Promise<NamedRequest[]>;
}

export interface RequestsDependencies {
  log: Pick<RequestLog, 'list'>;
  recorder: Pick<RequestRecorder, 'flush'>;
  keys: Pick<KeyRepository, 'get'>;
}

export function createRequests({ log, recorder, keys }: RequestsDependencies): RequestsService {
  async function withNames(entries: readonly RequestEntry[], reader: Reader): Promise<NamedRequest[]> {
    const ids = [...new Set(entries.map(({ keyId }) => keyId))];
    const found = new Map(await Promise.all(ids.map(async (id) => [id, await keys.get(id)] as const)));
    return entries.map((entry) => {
      const key = found.get(entry.keyId);
      return { ...entry, keyName: key !== undefined && seesKeyName(reader, key) ? key.name : null };
    });
  }

  return {
    withNames,
    async list(filter, { limit, before, forOperators }, caller) {
      await recorder.flush();
      const found = await withReportAdvice(log.list(filter, { limit: limit + 1, before }, caller), {
        field: ['start'],
        advice: 'Name a later start, or an account.',
      });
      const entries = await withNames(found.slice(0, limit), { ...filter, forOperators });
      const last = entries.at(-1);
      const next = found.length > limit && last !== undefined ? { time: last.time, id: last.id } : undefined;
      return { entries, next };
    },
    async get(id, accountId, caller) {
      await recorder.flush();
      const reader = { accountId, forOperators: accountId === undefined };
      const [found] = await withNames(await log.list({ id, accountId }, { limit: 1 }, caller), reader);
      if (found === undefined) throw errors.requestNotFound(id);
      return found;
    },
  };
}
