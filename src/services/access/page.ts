export interface PageRequest {
  limit: number;
  /** Id of the last one seen. */
  after?: string | undefined;
}

export interface Page<T> {
  items: T[];
  hasMore: boolean;
}

/** Of one more than the limit, which tells whether there are more. */
export const pageOf = <T>(found: readonly T[], limit: number): Page<T> => ({
  items: found.slice(0, limit),
  hasMore: found.length > limit,
});
