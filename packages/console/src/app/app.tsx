import { useEffect, useState } from 'preact/hooks';
import { ApiFailure, endsSession, onSignedOut } from '../api/client.ts';
import { queryClient } from '../api/query.ts';
import { currentSession, SessionContext } from '../api/session.ts';
import type { Session } from '../api/types.ts';
import { Failure, Toasts } from '../components/feedback.tsx';
import { Skeleton } from '../components/page.tsx';
import { Shell } from './shell.tsx';
import { SignIn } from './sign-in.tsx';

type State =
  | { kind: 'checking' }
  | { kind: 'signed-out'; ended: boolean }
  | { kind: 'signed-in'; session: Session }
  | { kind: 'failed'; error: unknown };

const RETRY_MS = 2_000;

export function App() {
  const [state, setState] = useState<State>({ kind: 'checking' });

  const check = () => {
    currentSession()
      .then((session) => setState({ kind: 'signed-in', session }))
      .catch((error: unknown) => {
        const refused = error instanceof ApiFailure && endsSession(error);
        setState(refused ? { kind: 'signed-out', ended: false } : { kind: 'failed', error });
      });
  };
  useEffect(() => {
    check();
    onSignedOut(() => {
      setState((before) => (before.kind === 'signed-in' ? { kind: 'signed-out', ended: true } : before));
    });
  }, []);

  // The server may be back soon.
  useEffect(() => {
    if (state.kind !== 'failed') return;
    const timer = setTimeout(check, RETRY_MS);
    return () => clearTimeout(timer);
  }, [state]);

  const signedIn = state.kind === 'signed-in';
  useEffect(() => {
    if (!signedIn) return;
    // Nothing of one session may show up in the next.
    return () => queryClient.clear();
  }, [signedIn]);

  return (
    <>
      {state.kind === 'checking' && <Waiting />}
      {state.kind === 'failed' && (
        <main class="page">
          <Failure error={state.error} onRetry={check} />
        </main>
      )}
      {state.kind === 'signed-out' && (
        <SignIn ended={state.ended} onSignedIn={(session) => setState({ kind: 'signed-in', session })} />
      )}
      {state.kind === 'signed-in' && (
        <SessionContext.Provider value={state.session}>
          <Shell onSignedOut={() => setState({ kind: 'signed-out', ended: false })} />
        </SessionContext.Provider>
      )}
      <Toasts />
    </>
  );
}

function Waiting() {
  return (
    <div class="frame">
      <div class="rail" />
      <main class="content">
        <div class="page">
          <div class="skeleton skeleton-title" />
          <Skeleton height={320} />
        </div>
      </main>
    </div>
  );
}
