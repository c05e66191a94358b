import type { ComponentChildren } from 'preact';
import { call } from '../../api/client.ts';
import { useWorkAccount } from '../../api/session.ts';
import { texts } from '../../texts/en/texts.ts';
import { snippet } from '../first-request/snippets.ts';
import { PartForm, type PartProps } from './parts.tsx';
import type { Run } from './run.ts';

/** What was sent stays with its answer: the form may change meanwhile. */
export interface Exchange<Body, Answer> {
  sent: Body;
  answer: Answer;
}

export interface RequestFormProps<Body, Answer> extends PartProps {
  path: string;
  body: Body;
  run: Run<Exchange<Body, Answer>>;
  disabled: boolean;
  children: ComponentChildren;
}

/** The form of a part that sends JSON and gets JSON. */
export function RequestForm<Body extends object, Answer>(props: RequestFormProps<Body, Answer>) {
  const { models, model, path, body, run, disabled, onCode, children } = props;
  const { query } = useWorkAccount();
  const start = () =>
    run.start(async (signal) => ({
      sent: body,
      answer: await call<Answer>(path, { method: 'POST', query, body, signal }),
    }));
  return (
    <PartForm
      models={models}
      model={model}
      run={run}
      label={texts.playground.run}
      disabled={disabled}
      onRun={start}
      onCode={() => onCode((language) => snippet(language, { origin: location.origin, path, query, body }))}
    >
      {children}
    </PartForm>
  );
}
