import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { selfTestModel } from './test-model.ts';

export interface SelfTestResult {
  /** Names of the GPUs. */
  names: readonly string[];
  /** Memory of all GPUs together. */
  memoryBytes: number;
}

export type SelfTestOutcome = ({ works: true } & SelfTestResult) | { works: false; reason: string };

export interface SelfTestOptions {
  backend: string;
  environment: Readonly<Record<string, string | undefined>>;
  /** Entry of the throwaway process. */
  script?: URL;
  timeoutMs?: number;
}

const SCRIPT = new URL('./self-test.ts', import.meta.url);
/** A driver may compile kernels for its GPU at first use, which takes minutes. */
const TIMEOUT_MS = 240_000;
const MAX_OUTPUT_CHARS = 64 * 1024;
const MAX_REASON_CHARS = 300;

/** Decodes with one backend in a process of its own, because a backend that does not fit the machine aborts its process. */
export async function runSelfTest(options: SelfTestOptions): Promise<SelfTestOutcome> {
  const directory = await mkdtemp(join(tmpdir(), 'baobab-self-test-'));
  try {
    const model = join(directory, 'model.gguf');
    await writeFile(model, selfTestModel());
    return await runChild(options, model);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function runChild(options: SelfTestOptions, model: string): Promise<SelfTestOutcome> {
  const { backend, environment, script = SCRIPT, timeoutMs = TIMEOUT_MS } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [fileURLToPath(script), backend, model, String(process.pid)], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...environment },
    });
    // It says nothing about the backend, so it is not remembered: the system may have more processes in a moment.
    child.on('error', reject);
    if (child.pid === undefined) return;
    let output = '';
    let problems = '';
    let late = false;
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-MAX_OUTPUT_CHARS);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      problems = (problems + text).slice(0, MAX_OUTPUT_CHARS);
    });
    const timer = setTimeout(() => {
      late = true;
      child.kill('SIGKILL');
    }, timeoutMs);
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      const result = code === 0 ? resultOf(output) : undefined;
      if (result !== undefined) return resolve({ works: true, ...result });
      const ending = late ? `it took longer than ${timeoutMs / 1000} s` : endingOf(code, signal);
      resolve({ works: false, reason: reasonOf(problems) ?? ending });
    });
  });
}

function resultOf(output: string): SelfTestResult | undefined {
  try {
    return JSON.parse(output.trimEnd().split('\n').at(-1) ?? '');
  } catch {
    return undefined;
  }
}

const endingOf = (code: number | null, signal: NodeJS.Signals | null) =>
  signal === null ? `the self-test exited with code ${code}` : `the self-test crashed with ${signal}`;

/** The first line that says what went wrong: libraries print backtraces and notes after it. */
function reasonOf(problems: string): string | undefined {
  const lines = problems.split('\n').map((line) => line.trim());
  const line = lines.find((each) => /error|failed|unsupported|incompatible/i.test(each) && !each.startsWith('at '));
  return line?.replace(/^\[?node-llama-cpp\]?\s*/, '').slice(0, MAX_REASON_CHARS);
}
