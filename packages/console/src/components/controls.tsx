import type { ComponentChildren, InputHTMLAttributes } from 'preact';
import { useId, useState } from 'preact/hooks';
import { texts } from '../texts/en/texts.ts';
import { Icon, type IconName } from './icon.tsx';

export type Tone = 'plain' | 'primary' | 'danger' | 'danger-filled' | 'quiet';

export interface ButtonProps {
  children?: ComponentChildren;
  tone?: Tone;
  size?: 'small' | 'normal' | 'large';
  icon?: IconName;
  /** Names a button that shows only an icon. */
  label?: string;
  type?: 'button' | 'submit';
  disabled?: boolean;
  onClick?: (event: MouseEvent) => void;
  pressed?: boolean;
}

export function Button({
  children,
  tone = 'plain',
  size = 'normal',
  icon,
  label,
  type = 'button',
  pressed,
  ...rest
}: ButtonProps) {
  const classes = ['button'];
  if (tone !== 'plain') classes.push(`button-${tone}`);
  if (size !== 'normal') classes.push(`button-${size}`);
  if (children === undefined) classes.push('button-icon');
  return (
    <button class={classes.join(' ')} type={type} aria-label={label} title={label} aria-pressed={pressed} {...rest}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export interface LinkButtonProps {
  href: string;
  children: ComponentChildren;
  icon?: IconName;
  tone?: Tone;
  size?: 'small' | 'normal';
  download?: string;
}

export function LinkButton({ href, children, icon, tone = 'plain', size = 'normal', download }: LinkButtonProps) {
  const classes = `button ${tone === 'plain' ? '' : `button-${tone}`} ${size === 'small' ? 'button-small' : ''}`;
  return (
    <a class={classes} href={href} {...(download === undefined ? {} : { download })}>
      {icon && <Icon name={icon} />}
      {children}
    </a>
  );
}

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
  step?: string;
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

export function CopyButton({ text, label = texts.common.copy }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <Button
      tone="quiet"
      size="small"
      icon={copied ? 'check' : 'copy'}
      label={copied ? texts.common.copied : label}
      onClick={(event) => {
        event.stopPropagation();
        void copy();
      }}
    />
  );
}

/** An id in monospace with its copy button. */
export function Copyable({ text }: { text: string }) {
  return (
    <span class="copyable">
      <span class="mono truncate">{text}</span>
      <CopyButton text={text} />
    </span>
  );
}

export function CodeBlock({ code, head }: { code: string; head?: ComponentChildren }) {
  return (
    <div class="code-block">
      <div class="code-head">
        <div>{head}</div>
        <CopyButton text={code} />
      </div>
      {/* A scrollable region must be reachable with the keyboard. */}
      <pre dir="auto" {...{ tabIndex: 0 }}>
        {code}
      </pre>
    </div>
  );
}
