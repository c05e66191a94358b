import type { AuditEntry, ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ReportCaller } from '@baobab/core/ports/reports.ts';
import type { AuditFilter, AuditLog, AuditPosition } from '@baobab/core/ports/repositories.ts';
import { withReportAdvice } from '../requests/report-advice.ts';
import { type AccountUse, accountUsed } from './entries.ts';

export interface AuditPage {
  entries: AuditEntry[];
  /** Position of the last entry when there are more. */
  next: AuditPosition | undefined;
}

export interface AuditService {
  /** Newest first. */
  list(
    filter: AuditFilter,
    page: { limit: number; before?: AuditPosition | undefined },
    caller?: ReportCaller,
  ): Promise<AuditPage>;
  /** An operator is about to act for an account. */
  accountUsed(by: ChangeOrigin, use: AccountUse): Promise<void>;
  /** Removes entries that are kept no longer. */
  sweep(): Promise<void>;
}

export interface AuditDependencies {
  log: Pick<AuditLog, 'append' | 'list' | 'removeOlder'>;
  settings: { retentionDays: number };
  clock: Clock;
}

export function createAudit({ log, settings, clock }: AuditDependencies): AuditService {
  return {
    async list(filter, { limit, before }, caller) {
      const found = await withReportAdvice(log.list(filter, { limit: limit + 1, before }, caller), {
        field: ['start'],
        advice: 'Name a later start, an account, a target or an action.',
      });
      const entries = found.slice(0, limit);
      const last = entries.at(-1);
      const next = found.length > limit && last !== undefined ? { time: last.time, id: last.id } : undefined;
      return { entries, next };
    },
    accountUsed: (by, use) => log.append(accountUsed(by, use, clock.now())),
    async sweep() {
      // Group by group, so that other writes need not wait long.
      const oldest = clock.now() - settings.retentionDays * DAY_MS;
      while ((await log.removeOlder(oldest)) > 0);
    },
  };
}
