import type { ComponentChildren, InputHTMLAttributes } from 'preact';
import { useId } from 'preact/hooks';

export interface FieldProps {
  label: string;
  hint?: string | undefined;
  /** Shown instead of the hint. The value is accepted all the same. */
  warning?: string | undefined;
  error?: string | undefined;
  children: (attributes: { id: string; 'aria-describedby'?: string; 'aria-invalid'?: 'true' }) => ComponentChildren;
}

const noteClass = ({ error, warning }: FieldProps): string => {
  if (error !== undefined) return 'field-error';
  return warning === undefined ? 'field-hint' : 'field-warning';
};

/** A control with its label, hint, warning and error tied to it. */
export function Field(props: FieldProps) {
  const { label, hint, warning, error, children } = props;
  const id = useId();
  const note = error ?? warning ?? hint;
  return (
    <div class="field">
      <label class="field-label" for={id}>
        {label}
      </label>
      {children({
        id,
        ...(note === undefined ? {} : { 'aria-describedby': `${id}-note` }),
        ...(error === undefined ? {} : { 'aria-invalid': 'true' as const }),
      })}
      {note !== undefined && (
        <span id={`${id}-note`} class={noteClass(props)}>
          {note}
        </span>
      )}
    </div>
  );
}

export interface TextFieldProps {
  label: string;
  hint?: string;
  error?: string | undefined;
  value: string;
  onValue: (value: string) => void;
  type?: 'text' | 'number' | 'date' | 'search';
  placeholder?: string;
  required?: boolean;
  maxLength?: number;
  min?: number | string;
  max?: number;
  step?: string;
  /** Id of a list of suggestions. */
  list?: string;
}

export function TextField({ label, hint, error, value, onValue, type = 'text', ...rest }: TextFieldProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(attributes) => {
        // The types of `input` want one literal type for each kind.
        const input = { ...rest, ...attributes, type } as InputHTMLAttributes<HTMLInputElement>;
        return (
          <input
            class="input"
            autocomplete="off"
            {...input}
            value={value}
            onInput={(event) => onValue(event.currentTarget.value)}
          />
        );
      }}
    </Field>
  );
}

export interface SearchFieldProps {
  label: string;
  placeholder?: string;
  value: string;
  /** At each key. */
  onValue?: (value: string) => void;
  /** When the text is complete, for searches that ask the server. */
  onCommit?: (value: string) => void;
  mono?: boolean;
}

/** Filters a list. */
export function SearchField({ label, placeholder = label, value, onValue, onCommit, mono = false }: SearchFieldProps) {
  return (
    <input
      class={mono ? 'input input-find mono' : 'input input-find'}
      type="search"
      aria-label={label}
      placeholder={placeholder}
      value={value}
      onInput={(event) => onValue?.(event.currentTarget.value)}
      onChange={(event) => onCommit?.(event.currentTarget.value.trim())}
    />
  );
}

export interface TextAreaProps {
  label: string;
  hint?: string;
  warning?: string | undefined;
  error?: string | undefined;
  value: string;
  rows?: number;
  mono?: boolean;
  placeholder?: string;
  onValue: (value: string) => void;
}

export function TextArea({ label, hint, warning, error, value, rows = 3, mono, placeholder, onValue }: TextAreaProps) {
  return (
    <Field label={label} hint={hint} warning={warning} error={error}>
      {(attributes) => (
        <textarea
          class={mono ? 'textarea mono' : 'textarea'}
          dir="auto"
          rows={rows}
          value={value}
          placeholder={placeholder}
          onInput={(event) => onValue(event.currentTarget.value)}
          {...attributes}
        />
      )}
    </Field>
  );
}
