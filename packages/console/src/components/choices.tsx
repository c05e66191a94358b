import { Field } from './fields.tsx';

export interface Option {
  value: string;
  label: string;
}

export const optionsOf = (labels: Record<string, string>): Option[] =>
  Object.entries(labels).map(([value, label]) => ({ value, label }));

export interface SelectProps {
  label: string;
  options: Option[];
  value: string;
  onValue: (value: string) => void;
  /** In a row of filters: no label above. */
  inline?: boolean;
}

export function Select({ label, options, value, onValue, inline = false }: SelectProps) {
  const known = options.some((option) => option.value === value);
  const control = (attributes: object) => (
    <select
      class={inline ? 'select select-auto' : 'select'}
      value={value}
      onChange={(event) => onValue(event.currentTarget.value)}
      {...attributes}
    >
      {!known && value !== '' && <option value={value}>{value}</option>}
      {options.map((option) => (
        <option key={option.value} value={option.value} selected={option.value === value}>
          {option.label}
        </option>
      ))}
    </select>
  );
  return inline ? (
    control({ 'aria-label': label, title: label })
  ) : (
    <Field label={label}>{(attributes) => control(attributes)}</Field>
  );
}

export interface SegmentsProps {
  label: string;
  options: Option[];
  value: string;
  onValue: (value: string) => void;
}

/** A few exclusive choices side by side. */
export function Segments({ label, options, value, onValue }: SegmentsProps) {
  return (
    <fieldset class="segments">
      <legend class="hidden-visually">{label}</legend>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          class="segment"
          aria-pressed={option.value === value}
          onClick={() => onValue(option.value)}
        >
          {option.label}
        </button>
      ))}
    </fieldset>
  );
}
