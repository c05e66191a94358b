import { nearest } from '@baobab/core/runtime/nearest.ts';
import { UsageError } from './command.ts';

/** The arguments that an action takes. */
export interface Follows {
  what: string;
  least: number;
  most: number;
  /** The options that the action takes, besides `--json`. Undefined: all of the command. */
  options?: readonly string[] | undefined;
}

export const nothing: Follows = { what: '', least: 0, most: 0 };
export const one = (what: string): Follows => ({ what, least: 1, most: 1 });
export const withOptions = (follows: Follows, ...options: readonly string[]): Follows => ({ ...follows, options });
export const several = (what: string, least = 1): Follows => ({ what, least, most: Number.POSITIVE_INFINITY });

/** Options of one action are taken for actions too: `watch` is `show --watch`. */
function meantText(given: string, actions: Readonly<Record<string, Follows>>): string | undefined {
  const [owner, ...others] = Object.keys(actions).filter((name) => actions[name]?.options?.includes(given));
  const isOption = owner !== undefined && others.length === 0;
  return nearest(given, Object.keys(actions)) ?? (isOption ? `${owner} --${given}` : undefined);
}

/** Splits the arguments into an action and what follows it. Throws on a missing, unknown or extra argument, and on options of other actions. */
export function readAction<A extends string>(
  command: string,
  actions: Record<A, Follows>,
  { values = {}, positionals: [action, ...following] }: { values?: object; positionals: readonly string[] },
): { action: A; following: string[] } {
  const known = Object.keys(actions).join(', ');
  if (action === undefined) throw new UsageError(`an action is missing; use one of: ${known}`);
  if (!Object.hasOwn(actions, action)) {
    const meant = meantText(action, actions);
    const hint = meant === undefined ? 'use' : `did you mean '${meant}'? Use`;
    throw new UsageError(`unknown action '${action}'; ${hint} one of: ${known}`);
  }
  const { what, least, most, options } = actions[action as A];
  if (following.length < least) throw new UsageError(`'${command} ${action}' needs ${what}`);
  if (following.length > most) {
    throw new UsageError(`'${command} ${action}' does not accept '${following.slice(most).join(' ')}'`);
  }
  const foreign = Object.keys(values).find((name) => name !== 'json' && options?.includes(name) === false);
  if (foreign !== undefined) throw new UsageError(`'${command} ${action}' does not take --${foreign}`);
  return { action: action as A, following };
}
