import { isOperator } from '@baobab/core/domain/operations.ts';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import { usePlace } from '../address/router.ts';
import { texts } from '../texts/en/texts.ts';
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

/** Files and batches belong to the account of the key, also for operators who look at others. */
export const ownAccount = (about: string, session: Session): string =>
  isOperator(session) ? `${about} ${texts.nav.ofAccount(session.account.name)}` : about;
