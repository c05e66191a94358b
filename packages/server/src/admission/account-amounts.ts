/** Adds up an amount for each account, such as the bytes that it is sending or its running uploads, and bounds it. */
export interface AccountAmounts {
  /** False, and nothing added, when there would be more than the limit. */
  add(accountId: string, amount: number): boolean;
  remove(accountId: string, amount: number): void;
}

export function createAccountAmounts(limit: number): AccountAmounts {
  const amounts = new Map<string, number>();
  return {
    add(accountId, amount) {
      const sum = (amounts.get(accountId) ?? 0) + amount;
      if (sum > limit) return false;
      amounts.set(accountId, sum);
      return true;
    },
    remove(accountId, amount) {
      const left = (amounts.get(accountId) ?? 0) - amount;
      if (left > 0) amounts.set(accountId, left);
      else amounts.delete(accountId);
    },
  };
}
