import { withReportAdvice } from '../requests/report-advice.ts';

export interface PageRequest {
  limit: number;
  /** Id of the last one seen. */
  after?: string | undefined;
  newestFirst?: boolean | undefined;
  /** A part of the name or the prefix, or an id. */
  search?: string | undefined;
  /** Only those with a monthly budget. */
  hasBudget?: boolean | undefined;
}

export interface Page<T> {
  items: T[];
  hasMore: boolean;
}

/** Reads one item more than the limit, which shows whether there are more. */
export async function readPage<T>(read: (limit: number) => Promise<readonly T[]>, limit: number): Promise<Page<T>> {
  const found = await withReportAdvice(read(limit + 1), { field: ['search'], advice: 'Ask for fewer at a time.' });
  return { items: found.slice(0, limit), hasMore: found.length > limit };
}
