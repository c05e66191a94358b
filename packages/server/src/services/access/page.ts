export interface PageRequest {
  limit: number;
  /** Id of the last one seen. */
  after?: string | undefined;
}

export interface Page<T> {
  items: T[];
  hasMore: boolean;
}

/** Takes one item more than the limit, which shows whether there are more. */
export const pageOf = <T>(found: readonly T[], limit: number): Page<T> => ({
  items: found.slice(0, limit),
  hasMore: found.length > limit,
});
