import { useState } from 'preact/hooks';
import { ApiFailure } from '../api/client.ts';
import { signIn } from '../api/session.ts';
import type { Session } from '../api/types.ts';
import { Field } from '../components/fields.tsx';
import { useErrorOf } from '../components/form.tsx';
import { Mark } from '../components/icon.tsx';
import { texts } from '../texts/en/texts.ts';

const HELP_COMMAND = 'npx baobab keys create me';

export interface SignInProps {
  /** The session ended without being asked to. */
  ended: boolean;
  onSignedIn: (session: Session) => void;
}

export function SignIn({ ended, onSignedIn }: SignInProps) {
  const [key, setKey] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useErrorOf<string>({ key }, () => 'key');

  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy || key.trim() === '') return;
    setBusy(true);
    setError(undefined);
    try {
      onSignedIn(await signIn(key.trim()));
    } catch (failure) {
      const refused = failure instanceof ApiFailure && failure.status === 401;
      setError(refused ? texts.signIn.wrong : failure instanceof Error ? failure.message : String(failure));
      setBusy(false);
    }
  };

  return (
    <main class="sign-in">
      <form class="sign-in-card" onSubmit={submit}>
        <Mark />
        <div>
          <h1>{texts.signIn.title}</h1>
          <p class="muted">{texts.signIn.about}</p>
        </div>
        {ended && error === undefined && <p class="notice notice-warn">{texts.signIn.ended}</p>}
        <Field label={texts.signIn.key} hint={texts.signIn.hint} error={error}>
          {(attributes) => (
            <input
              class="input input-large mono"
              type="password"
              name="key"
              autocomplete="current-password"
              spellcheck={false}
              required
              value={key}
              onInput={(event) => setKey(event.currentTarget.value)}
              {...attributes}
            />
          )}
        </Field>
        <button class="button button-primary button-large" type="submit" disabled={busy}>
          {busy ? texts.signIn.busy : texts.signIn.action}
        </button>
        <p class="small muted">
          {texts.signIn.help} <code>{HELP_COMMAND}</code>
        </p>
      </form>
    </main>
  );
}
