import type { ComponentChildren } from 'preact';
import { changeSearch } from '../../address/router.ts';
import type { Model } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { Select } from '../../components/choices.tsx';
import { Failure } from '../../components/feedback.tsx';
import { isSendKey } from '../../components/keyboard.ts';
import { money, moneyExact } from '../../format/numbers.ts';
import { duration } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import type { WriteCode } from '../first-request/code-examples.tsx';
import type { Run } from './run.ts';

export interface PartProps {
  /** Models of this kind that can run. */
  models: Model[];
  model: Model;
  onCode: (write: WriteCode) => void;
}

export function ModelSelect(props: { label: string; models: Model[]; value: string; onValue: (id: string) => void }) {
  const { label, models, value, onValue } = props;
  return (
    <Select
      label={label}
      value={value}
      onValue={onValue}
      options={models.map(({ id, status }) => ({
        value: id,
        label: status === 'ready' ? id : `${id} (${texts.models.statuses[status]?.toLowerCase()})`,
      }))}
    />
  );
}

export interface PartFormProps extends Omit<PartProps, 'onCode'> {
  run: Pick<Run<unknown>, 'running' | 'error' | 'stop'>;
  label: string;
  disabled: boolean;
  onRun: () => void;
  onCode: () => void;
  /** The input of the request. */
  children: ComponentChildren;
}

/** What one sends: the model, the input, and the buttons that run it. */
export function PartForm({ models, model, run, label, disabled, onRun, onCode, children }: PartFormProps) {
  const { playground } = texts;
  const send = (event: Event) => {
    event.preventDefault();
    if (!disabled && !run.running) onRun();
  };
  return (
    <form class="stack" onSubmit={send} onKeyDown={(event) => isSendKey(event) && send(event)}>
      <ModelSelect
        label={playground.model}
        models={models}
        value={model.id}
        onValue={(id) => changeSearch({ model: id })}
      />
      {children}
      <div class="row">
        {run.running ? (
          <Button icon="stop" onClick={run.stop}>
            {playground.stop}
          </Button>
        ) : (
          <Button type="submit" tone="primary" icon="playground" disabled={disabled}>
            {label}
          </Button>
        )}
        <Button tone="quiet" onClick={onCode}>
          {playground.code}
        </Button>
      </div>
      {run.error !== undefined && <Failure error={run.error} onRetry={onRun} />}
    </form>
  );
}

export interface StatsProps {
  cost: number | undefined;
  ms: number;
  children?: ComponentChildren;
}

/** What an answer took. */
export function Stats({ cost, ms, children }: StatsProps) {
  return (
    <p class="stats numbers">
      {cost !== undefined && <span title={moneyExact(cost)}>{money(cost)}</span>}
      <span>{texts.playground.stats.total(duration(ms))}</span>
      {children}
    </p>
  );
}
