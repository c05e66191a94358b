import { isCalendarDate, isoTime } from './time/dates.ts';
import { DAY_MS } from './time/durations.ts';

/** The shortest time between the announcement and the removal of a version. */
export const NOTICE_DAYS = 90;

export interface LifecycleDates {
  /** Milliseconds since 1970. */
  deprecatedAt: number | null;
  retiredAt: number | null;
}

export type VersionState = 'current' | 'deprecated' | 'retired';

export function versionState(dates: LifecycleDates, nowMs: number): VersionState {
  if (dates.retiredAt !== null && dates.retiredAt <= nowMs) return 'retired';
  return dates.deprecatedAt === null ? 'current' : 'deprecated';
}

export const earliestRemoval = (noticeMs: number): string =>
  // The next midnight that leaves the full notice.
  new Date(Math.ceil((noticeMs + NOTICE_DAYS * DAY_MS) / DAY_MS) * DAY_MS).toISOString().slice(0, 10);

/** Why a removal date is refused, or undefined when it is fine. */
export function noticeProblem(removalDate: string, noticeMs: number): string | undefined {
  if (!isCalendarDate(removalDate)) return `'${removalDate}' is not a date of the form YYYY-MM-DD`;
  if (Date.parse(`${removalDate}T00:00:00Z`) - noticeMs < NOTICE_DAYS * DAY_MS) {
    return `${removalDate} leaves less than ${NOTICE_DAYS} days of notice; the earliest date is ${earliestRemoval(noticeMs)}`;
  }
  return undefined;
}

/** Why a version may not be retired now, or undefined when it may. */
export function retirementProblem(dates: LifecycleDates, nowMs: number): string | undefined {
  if (dates.deprecatedAt === null) return 'it was never deprecated: announce a removal date first';
  if (dates.deprecatedAt > nowMs) return `its removal date ${isoTime(dates.deprecatedAt)} has not come yet`;
  return undefined;
}
