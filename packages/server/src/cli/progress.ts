import type { Clock } from '@baobab/core/ports/clock.ts';
import type { PullProgress } from '../models/progress-meter.ts';

export interface ProgressTarget {
  isTTY?: boolean | undefined;
  columns?: number | undefined;
  write(text: string): unknown;
}

export interface ProgressView {
  update(label: string, progress: PullProgress): void;
  /** Replaces the bar with a final line. */
  finish(text: string): void;
}

const BAR_WIDTH = 24;
const PLAIN_LINE_EVERY_MS = 5_000;
const CLEAR_LINE = '\r\u001b[2K';

/** How much of something is done. */
export interface ShareView {
  /** `share` in 0–1; null: unknown. */
  update(label: string, share: number | null, details: readonly string[]): void;
  finish(text: string): void;
}

/** A progress bar on a terminal, a line every few seconds elsewhere. */
export function createShareView(target: ProgressTarget, clock: Clock): ShareView {
  if (target.isTTY === true) {
    return {
      update: (label, share, details) =>
        target.write(CLEAR_LINE + cutTo(barLine(label, share, details), target.columns ?? 80)),
      finish: (text) => target.write(`${CLEAR_LINE}${text}\n`),
    };
  }
  let printedAtMs = Number.NEGATIVE_INFINITY;
  return {
    update(label, share, details) {
      const nowMs = clock.now();
      if (nowMs - printedAtMs < PLAIN_LINE_EVERY_MS) return;
      printedAtMs = nowMs;
      target.write(`${label}: ${[percent(share), ...details].filter(Boolean).join(', ')}\n`);
    },
    finish(text) {
      printedAtMs = Number.NEGATIVE_INFINITY;
      target.write(`${text}\n`);
    },
  };
}

const QUIET_MS = 1_000;

/** Says what a command is doing when that takes longer than a second. */
export async function sayWhenSlow<T>(text: string, work: Promise<T>, say: (text: string) => void): Promise<T> {
  const timer = setTimeout(() => say(`${text}…`), QUIET_MS);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}

export function createProgressView(target: ProgressTarget, clock: Clock): ProgressView {
  const view = createShareView(target, clock);
  return {
    update: (label, progress) => view.update(label, shareOf(progress), details(progress)),
    finish: view.finish,
  };
}

function barLine(label: string, share: number | null, details: readonly string[]): string {
  const filled = Math.round((share ?? 0) * BAR_WIDTH);
  const bar = '█'.repeat(filled) + '░'.repeat(BAR_WIDTH - filled);
  return `${label}  ${bar} ${[percent(share), ...details].filter(Boolean).join('  ')}`;
}

/** A line that wraps could not be overwritten. */
const cutTo = (line: string, columns: number): string => [...line].slice(0, Math.max(1, columns - 1)).join('');

function shareOf({ receivedBytes, totalBytes }: PullProgress): number | null {
  if (totalBytes === null) return null;
  return totalBytes === 0 ? 0 : Math.min(1, receivedBytes / totalBytes);
}

const percent = (share: number | null): string => (share === null ? '' : `${Math.floor(share * 100)} %`);

function details({ receivedBytes, totalBytes, bytesPerSecond, secondsLeft }: PullProgress): string[] {
  return [
    totalBytes === null ? formatBytes(receivedBytes) : `${formatBytes(receivedBytes)} of ${formatBytes(totalBytes)}`,
    bytesPerSecond > 0 ? `${formatBytes(bytesPerSecond)}/s` : '',
    secondsLeft === null ? '' : `${formatDuration(secondsLeft)} left`,
  ];
}

export function formatBytes(bytes: number): string {
  if (bytes < 1e3) return `${Math.round(bytes)} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(1)} kB`;
  if (bytes < 1e9) return `${(bytes / 1e6).toFixed(1)} MB`;
  return `${(bytes / 1e9).toFixed(2)} GB`;
}

export function formatDuration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
