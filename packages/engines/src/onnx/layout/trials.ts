import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { LayoutTrialOptions, MeasuredLayout } from '@baobab/core/engine/driver.ts';
import type { OnnxOptions } from '../driver.ts';
import { TRIAL_BATCH, type TrialOrder } from './trial-order.ts';

const ENTRY = fileURLToPath(new URL('./trial-entry.ts', import.meta.url));
/** Limit of the whole trial, which takes about a second for each layout. */
const TIMEOUT_MS = 30_000;

export function fingerprint(): string {
  const entry = createRequire(import.meta.url).resolve('onnxruntime-node');
  const { version }: { version: string } = JSON.parse(readFileSync(join(dirname(entry), '..', 'package.json'), 'utf8'));
  return `onnxruntime ${version}, ${TRIAL_BATCH.rows} × ${TRIAL_BATCH.tokens} tokens`;
}

/** Runs the layouts one after the other, each in as many processes as it has, and counts tokens. */
export async function measure(options: LayoutTrialOptions): Promise<readonly MeasuredLayout[]> {
  const { model, activationRanges } = options.engine.options as OnnxOptions;
  const order: TrialOrder = {
    model: join(options.directory, model),
    rowWiseRanges: activationRanges === 'token',
    candidates: options.candidates,
  };
  const child = spawn(process.execPath, [ENTRY, JSON.stringify(order), String(process.pid)], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...options.environment },
    signal: options.signal,
    killSignal: 'SIGKILL',
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_MS);
  timer.unref();
  let output = '';
  try {
    await new Promise<void>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code) => (code === 0 ? resolve() : reject(new Error('the trial of layouts failed'))));
      // Without a free file descriptor there is no process and no output, only the error.
      child.stdout?.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
    });
  } finally {
    clearTimeout(timer);
  }
  return JSON.parse(output);
}
