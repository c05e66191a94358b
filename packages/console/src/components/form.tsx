import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure } from '../api/client.ts';
import { texts } from '../texts/en/texts.ts';
import { Button } from './button.tsx';
import { toast, toastFailure } from './feedback.tsx';

const isAbout = (error: ApiFailure, field: string): boolean =>
  error.param === field || error.param?.startsWith(`${field}[`) === true;

/** What the server says about one field, by its name in the API. */
export const errorAt = (error: ApiFailure | undefined, field: string): string | undefined =>
  error !== undefined && isAbout(error, field) ? error.message : undefined;

const isShownAt = (error: ApiFailure, fields: readonly string[]) => fields.some((field) => isAbout(error, field));

/** The field of a body that an error is about: `allowed_models` of `allowed_models[1]`. */
const fieldOf = ({ param }: ApiFailure): string | undefined => param?.split('[')[0];

/** An error that goes when the field that it is about changes. `body` is what would be sent now. */
export function useErrorOf<E>(
  body: object,
  about: (error: E) => string | undefined,
): [E | undefined, (error: E | undefined) => void] {
  const [failed, setFailed] = useState<{ error: E; sent: object }>();
  const field = failed && about(failed.error);
  const valueIn = (values: object) => JSON.stringify(Object.entries(values).find(([name]) => name === field)?.[1]);
  const isChanged = failed !== undefined && valueIn(failed.sent) !== valueIn(body);
  return [isChanged ? undefined : failed?.error, (error) => setFailed(error && { error, sent: body })];
}

export interface FormState {
  busy: boolean;
  error: ApiFailure | undefined;
  submit: (event: Event) => void;
}

/** Sends a form. `send` closes it; when it fails, the form can be sent again. */
export function useForm<Body extends object>(body: Body, send: (body: Body) => Promise<void>): FormState {
  const [error, setError] = useErrorOf(body, fieldOf);
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await send(body);
    } catch (failure) {
      setError(failure instanceof ApiFailure ? failure : new ApiFailure(0, String(failure)));
      setBusy(false);
    }
  };
  return { busy, error, submit: (event) => void submit(event) };
}

export interface FormProps {
  state: FormState;
  /** The button that sends it. */
  action: string;
  /** Whether it is filled in. */
  ready: boolean;
  /** Fields of the API that show their own errors. All other errors are shown above the buttons. */
  fields?: readonly string[];
  onCancel: () => void;
  children: ComponentChildren;
}

export function Form({ state, action, ready, fields = [], onCancel, children }: FormProps) {
  const { busy, error, submit } = state;
  const element = useRef<HTMLFormElement>(null);
  useEffect(() => {
    // The field may be out of sight, far above the button.
    if (error !== undefined) element.current?.querySelector<HTMLElement>('[aria-invalid]')?.focus();
  }, [error]);
  return (
    <form ref={element} class="stack" onSubmit={submit}>
      {children}
      {error !== undefined && !isShownAt(error, fields) && (
        <p class="notice notice-bad" role="alert">
          {error.message}
        </p>
      )}
      <div class="row form-end">
        <Button onClick={onCancel}>{texts.common.cancel}</Button>
        <Button type="submit" tone="primary" disabled={busy || !ready}>
          {action}
        </Button>
      </div>
    </form>
  );
}

export interface SaveOptions<Draft> {
  /** Fields of the API that show their own errors. */
  fields: readonly string[];
  /** What would be sent now. */
  body: object;
  write: (draft: Draft) => Promise<void>;
  /** Puts a draft into the fields. */
  show: (draft: Draft) => void;
  saved: string;
}

/** Saves what was changed in a sheet, and offers to undo it. */
export function useSave<Draft>({ fields, body, write, show, saved }: SaveOptions<Draft>) {
  const [error, setError] = useErrorOf(body, fieldOf);
  const save = async (before: Draft, after: Draft) => {
    setError(undefined);
    try {
      await write(after);
      const undo = () => {
        show(before);
        write(before).catch(toastFailure);
      };
      toast(saved, { action: { label: texts.common.undo, run: undo } });
    } catch (failure) {
      if (failure instanceof ApiFailure && isShownAt(failure, fields)) setError(failure);
      else toastFailure(failure);
    }
  };
  return { error, save: (before: Draft, after: Draft) => void save(before, after) };
}
