import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ApiFailure } from '../api/client.ts';
import { percent } from '../format/numbers.ts';
import { texts } from '../texts/en/texts.ts';
import { Button } from './button.tsx';
import { Copyable } from './copying.tsx';
import { Icon, type IconName } from './icon.tsx';

export type BadgeTone = 'plain' | 'good' | 'warn' | 'bad' | 'info';

export function Badge({ tone = 'plain', children }: { tone?: BadgeTone; children: ComponentChildren }) {
  return <span class={tone === 'plain' ? 'badge' : `badge badge-${tone}`}>{children}</span>;
}

export function Failure({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const failure = error instanceof ApiFailure ? error : undefined;
  const status = failure?.status ?? 500;
  const hint = texts.errors.hint[Math.min(status, 500)];
  return (
    <div class="failure" role="alert">
      <h2>{texts.errors.title}</h2>
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {hint && <p class="muted">{hint}</p>}
      {failure?.requestId && (
        <div class="row small muted">
          {texts.errors.requestId} <Copyable text={failure.requestId} />
        </div>
      )}
      {onRetry && (
        <Button size="small" icon="rotate" onClick={onRetry}>
          {texts.errors.retry}
        </Button>
      )}
    </div>
  );
}

export interface EmptyProps {
  icon: IconName;
  title: string;
  children?: ComponentChildren;
  action?: ComponentChildren;
}

/** Says what belongs here and how to fill it. */
export function Empty({ icon, title, children, action }: EmptyProps) {
  return (
    <div class="empty">
      <Icon name={icon} />
      <h2>{title}</h2>
      {children}
      {action}
    </div>
  );
}

export interface MeterProps {
  share: number;
  label: string;
  /** Progress of work: full is good. Otherwise it is a budget, and full is bad. */
  progress?: boolean;
  /** All of the work failed. */
  failed?: boolean;
}

export function Meter({ share, label, progress = false, failed = false }: MeterProps) {
  const level = share >= 1 ? 'meter meter-bad' : share >= 0.8 ? 'meter meter-warn' : 'meter';
  const tone = failed ? 'meter meter-bad' : progress ? 'meter' : level;
  const width = `${Math.min(100, Math.max(share > 0 ? 1 : 0, share * 100))}%`;
  return (
    <div class={tone}>
      <span style={{ width }} />
      <span class="hidden-visually">
        {label}: {percent(share)}
      </span>
    </div>
  );
}

interface Toast {
  id: number;
  text: string;
  bad: boolean;
  action?: { label: string; run: () => void };
}

const TOAST_MS = 6000;
let lastToast = 0;
let toasts: Toast[] = [];
let redraw: () => void = () => {};

export function toast(text: string, more: { bad?: boolean; action?: Toast['action'] } = {}): void {
  lastToast += 1;
  const id = lastToast;
  const { bad = false, action } = more;
  toasts = [...toasts.slice(-2), { id, text, bad, ...(action ? { action } : {}) }];
  redraw();
  setTimeout(() => dismiss(id), TOAST_MS);
}

function dismiss(id: number): void {
  toasts = toasts.filter((each) => each.id !== id);
  redraw();
}

/** Reports the failure of something that a person did. */
export function toastFailure(error: unknown): void {
  toast(error instanceof Error ? error.message : String(error), { bad: true });
}

export function Toasts() {
  const [, setCount] = useState(0);
  useEffect(() => {
    redraw = () => setCount((count) => count + 1);
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.map(({ id, text, bad, action }) => (
        <div key={id} class={bad ? 'toast toast-bad' : 'toast'}>
          <span class="grow">{text}</span>
          {action && (
            <Button
              size="small"
              onClick={() => {
                action.run();
                dismiss(id);
              }}
            >
              {action.label}
            </Button>
          )}
          <Button tone="quiet" size="small" icon="close" label={texts.common.close} onClick={() => dismiss(id)} />
        </div>
      ))}
    </div>
  );
}
