import type { ComponentChildren } from 'preact';
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
