import type { ComponentChildren } from 'preact';
import type { Model } from '../../api/types.ts';
import { Button, Select } from '../../components/controls.tsx';
import { money, moneyExact } from '../../format/numbers.ts';
import { duration } from '../../format/times.ts';
import { texts } from '../../texts/en.ts';
import type { WriteCode } from './playground.tsx';

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

export interface RunBarProps {
  running: boolean;
  disabled?: boolean;
  label: string;
  onRun: () => void;
  onStop: () => void;
  onCode: () => void;
}

export function RunBar({ running, disabled = false, label, onRun, onStop, onCode }: RunBarProps) {
  return (
    <div class="row">
      {running ? (
        <Button icon="stop" onClick={onStop}>
          {texts.playground.stop}
        </Button>
      ) : (
        <Button tone="primary" icon="playground" disabled={disabled} onClick={onRun}>
          {label}
        </Button>
      )}
      <Button tone="quiet" onClick={onCode}>
        {texts.playground.code}
      </Button>
    </div>
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
