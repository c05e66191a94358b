/** Whether a request may not begin: the budget is spent, or the request could spend more than what running requests leave of it. */
export const exceedsBudget = (
  { limitNanoUsd, reserveNanoUsd }: { limitNanoUsd: number; reserveNanoUsd: number },
  spentNanoUsd: number,
  reservedNanoUsd: number,
): boolean => spentNanoUsd >= limitNanoUsd || spentNanoUsd + reservedNanoUsd + reserveNanoUsd > limitNanoUsd;
