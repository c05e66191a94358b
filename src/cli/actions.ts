import { UsageError } from './command.ts';

/** What follows the name of an action: so many of what. */
export interface Follows {
  what: string;
  least: number;
  most: number;
}

export const nothing: Follows = { what: '', least: 0, most: 0 };
export const one = (what: string): Follows => ({ what, least: 1, most: 1 });
export const several = (what: string, least = 1): Follows => ({ what, least, most: Number.POSITIVE_INFINITY });

/** The action that the arguments ask for, and what follows it. Throws what is missing, unknown or too much. */
export function readAction<A extends string>(
  command: string,
  actions: Record<A, Follows>,
  [action, ...following]: readonly string[],
): { action: A; following: string[] } {
  const known = Object.keys(actions).join(', ');
  if (action === undefined) throw new UsageError(`say what to do: ${known}`);
  if (!Object.hasOwn(actions, action)) throw new UsageError(`there is no action '${action}'; there are: ${known}`);
  const { what, least, most } = actions[action as A];
  if (following.length < least) throw new UsageError(`'${command} ${action}' needs ${what}`);
  if (following.length > most) {
    throw new UsageError(`'${command} ${action}' cannot do anything with '${following.slice(most).join(' ')}'`);
  }
  return { action: action as A, following };
}
