/*
 * The work of calls, by which accounts share what there is. A call context has an estimate, in tokens, until an engine has counted them.
 */

/** While there is too much to do, interactive requests get so many times the work of those of low priority. */
const INTERACTIVE_WEIGHT = 10;
export const PRIORITY_WEIGHTS = { interactive: INTERACTIVE_WEIGHT, low: 1, batch: 1 } as const;

interface Working {
  readonly work?: { tokens: number } | undefined;
}

/** Whose work it is. */
export interface Sharing {
  readonly accountId: string;
  readonly priority: keyof typeof PRIORITY_WEIGHTS;
  readonly weight?: number | undefined;
}

/** In tokens. Every call is some work. */
export const workOf = ({ work }: Working): number => Math.max(1, work?.tokens ?? 1);

/** An engine has counted what a call takes. */
export function countWork({ work }: Working, tokens: number): void {
  if (work !== undefined) work.tokens = tokens;
}

/** The context of a part of a call, which takes this share of its work. */
export const partOf = <Context extends Working & { readonly signal: AbortSignal }>(
  context: Context,
  share: number,
  signal: AbortSignal,
): Context => ({ ...context, signal, work: context.work && { tokens: context.work.tokens * share } });

/** Where accounts share without a line for each priority: the name and the weight of the share that a call belongs to. */
export const shareOf = ({ accountId, priority, weight = 1 }: Sharing) => ({
  name: priority === 'interactive' ? accountId : `${accountId} ${priority}`,
  weight: weight * PRIORITY_WEIGHTS[priority],
});
