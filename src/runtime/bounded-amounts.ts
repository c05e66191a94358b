/** Adds up an amount for each name, such as the bytes that an account is sending, and bounds it. */
export interface BoundedAmounts {
  /** False, and nothing added, when there would be more than the limit. */
  add(name: string, amount: number): boolean;
  remove(name: string, amount: number): void;
}

export function createBoundedAmounts(limit: number): BoundedAmounts {
  const amounts = new Map<string, number>();
  return {
    add(name, amount) {
      const sum = (amounts.get(name) ?? 0) + amount;
      if (sum > limit) return false;
      amounts.set(name, sum);
      return true;
    },
    remove(name, amount) {
      const left = (amounts.get(name) ?? 0) - amount;
      if (left > 0) amounts.set(name, left);
      else amounts.delete(name);
    },
  };
}
