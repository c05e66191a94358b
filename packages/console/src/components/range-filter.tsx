import { offsetAt, zonedTime } from '@baobab/core/domain/time/time-zone.ts';
import { useState } from 'preact/hooks';
import { type Range, setCustomRange } from '../address/range.ts';
import { changeSearch } from '../address/router.ts';
import { chooseZone } from '../address/zone.ts';
import { localTimeZone, shortTime } from '../format/times.ts';
import { texts } from '../texts/en/texts.ts';
import { labelOf } from '../texts/label-of.ts';
import { Button } from './button.tsx';
import { optionsOf, Select } from './choices.tsx';
import { Field } from './fields.tsx';
import { Modal } from './overlay.tsx';

const PRESETS = ['24h', 'yesterday', '7d', 'month', '30d', '90d'];

/** What a `datetime-local` input shows. */
const toInput = (ms: number, zone: string) => new Date(ms + offsetAt(zone, ms)).toISOString().slice(0, 16);
const fromInput = (text: string, zone: string) => zonedTime(zone, Date.parse(`${text}Z`));

function zones(): string[] {
  const all = Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC' && zone !== 'Etc/UTC');
  const local = localTimeZone();
  return ['UTC', ...(local === 'UTC' ? [] : [local]), ...all.filter((zone) => zone !== local)];
}

export interface RangeFilterProps {
  range: Range;
  presets?: readonly string[];
  /** Lets people choose the bucket. */
  buckets?: boolean;
  zone?: boolean;
}

export function RangeFilter({ range, presets = PRESETS, buckets = false, zone = true }: RangeFilterProps) {
  const [editing, setEditing] = useState(false);
  const choose = (value: string) => {
    if (value === 'custom') setEditing(true);
    else changeSearch({ range: value, from: undefined, to: undefined, bucket: undefined });
  };
  const custom =
    range.name === 'custom'
      ? `${shortTime(range.fromMs, range.zone)} – ${shortTime(range.toMs, range.zone)}`
      : `${texts.range.custom}…`;
  return (
    <>
      <Select
        inline
        label={texts.range.label}
        value={range.name}
        onValue={choose}
        options={[
          ...presets.map((value) => ({ value, label: labelOf(texts.range.presets, value) })),
          { value: 'custom', label: custom },
        ]}
      />
      {buckets && (
        <Select
          inline
          label={texts.range.bucket}
          value={range.bucket}
          onValue={(bucket) => changeSearch({ bucket })}
          options={optionsOf(texts.range.buckets)}
        />
      )}
      {zone && (
        <Select
          inline
          label={texts.range.zone}
          value={range.zone}
          onValue={chooseZone}
          options={zones().map((value) => ({ value, label: value.replaceAll('_', ' ') }))}
        />
      )}
      {range.name === 'custom' && (
        <Button tone="quiet" icon="left" onClick={() => history.back()}>
          {texts.range.zoomOut}
        </Button>
      )}
      {editing && <RangeDialog range={range} onClose={() => setEditing(false)} />}
    </>
  );
}

function RangeDialog({ range, onClose }: { range: Range; onClose: () => void }) {
  const { zone } = range;
  const [from, setFrom] = useState(toInput(range.fromMs, zone));
  const [to, setTo] = useState(toInput(range.toMs, zone));
  const [fromMs, toMs] = [fromInput(from, zone), fromInput(to, zone)];
  const apply = () => {
    setCustomRange(fromMs, toMs);
    onClose();
  };
  const input = (label: string, value: string, onValue: (value: string) => void) => (
    <Field label={`${label}, ${zone}`}>
      {(attributes) => (
        <input
          class="input"
          type="datetime-local"
          value={value}
          onInput={(event) => onValue(event.currentTarget.value)}
          {...attributes}
        />
      )}
    </Field>
  );
  return (
    <Modal
      title={texts.range.label}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{texts.common.cancel}</Button>
          <Button tone="primary" disabled={!(fromMs < toMs)} onClick={apply}>
            {texts.range.apply}
          </Button>
        </>
      }
    >
      <div class="fields-2">
        {input(texts.range.from, from, setFrom)}
        {input(texts.range.to, to, setTo)}
      </div>
    </Modal>
  );
}

export function FilterChip({ name, value, onRemove }: { name: string; value: string; onRemove: () => void }) {
  return (
    <span class="filter-chip">
      <span class="truncate">
        {name}: <span class="strong">{value}</span>
      </span>
      <Button tone="quiet" size="small" icon="close" label={texts.common.clearFilter(name)} onClick={onRemove} />
    </span>
  );
}
