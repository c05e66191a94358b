import { errors } from '@baobab/core/errors/errors.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { ReportTooLongError } from '@baobab/core/ports/store-errors.ts';

/** Answers 422 when a report took too long, with what to ask for instead. */
export async function withReportAdvice<T>(
  report: Promise<T>,
  { field, advice }: { field: FieldPath; advice: string },
): Promise<T> {
  try {
    return await report;
  } catch (error) {
    if (!(error instanceof ReportTooLongError)) throw error;
    throw errors.validationFailed(field, `This takes longer than ${error.limitMs / 1000} seconds. ${advice}`);
  }
}
