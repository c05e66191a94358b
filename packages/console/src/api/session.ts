import { isOperator } from '@baobab/core/domain/operations.ts';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import { usePlace } from '../address/router.ts';
import { call, setCsrfToken } from './client.ts';
import type { Session } from './types.ts';

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error('no session: this part is drawn only for people who are signed in');
  return session;
}

export async function currentSession(): Promise<Session> {
  const session = await call<Session>('/v1/sessions/current', { keepSession: true });
  setCsrfToken(session.csrf_token ?? undefined);
  return session;
}

export async function signIn(key: string): Promise<Session> {
  const session = await call<Session>('/v1/sessions', { method: 'POST', body: { key }, keepSession: true });
  setCsrfToken(session.csrf_token ?? undefined);
  return session;
}

export async function signOut(): Promise<void> {
  await call('/v1/sessions/current', { method: 'DELETE', keepSession: true });
  setCsrfToken(undefined);
}

export const ALL_ACCOUNTS = '*';

/** The account that an operator looks at: `*` for all by default. Undefined for members, who have only their own. */
export function useAccountFilter(): string | undefined {
  const session = useSession();
  const { search } = usePlace();
  return isOperator(session) ? (search.get('account') ?? ALL_ACCOUNTS) : undefined;
}

/**
 * The account whose files and batches are shown, and that the playground runs for: the chosen one, or that of the key while all are shown.
 * `query` names it in requests, where it is not that of the key.
 */
export function useWorkAccount(): { id: string; query: { account?: string } } {
  const { account: own } = useSession();
  const chosen = useAccountFilter();
  const id = chosen === undefined || chosen === ALL_ACCOUNTS ? own.id : chosen;
  return { id, query: id === own.id ? {} : { account: id } };
}
