import { readFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';

/** Shared by all benchmarks: medians, run conditions, and the table of goals and results. */

/** Clock ticks of the kernel's accounting, the same on all common builds. */
const TICKS_PER_SECOND = 100;

export const percentile = (numbers: readonly number[], share: number): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length * share)] ?? Number.NaN;

/** For an even count, the mean of the two middle values. The upper one alone would inflate every ratio. */
export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

const load = () =>
  loadavg()
    .map((value) => value.toFixed(1))
    .join(' ');

export function printConditions(title: string): void {
  console.log(`${title}, ${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`);
  console.log(
    `${cpus().length} cores (${cpus()[0]?.model.trim() ?? 'unknown'}), Node ${process.version}, load average ${load()}\n`,
  );
}

export interface Goal {
  name: string;
  value: number;
  /** At most one of these. Neither for a figure that has no goal. */
  atLeast?: number;
  atMost?: number;
  unit?: string;
  digits?: number;
}

export interface Report {
  add(goal: Goal): void;
  /** Prints the table. Sets exit status 1 when a goal was missed. */
  print(): void;
}

export function createReport(): Report {
  const goals: Goal[] = [];
  return {
    add: (goal) => goals.push(goal),
    print() {
      const rows = goals.map(({ name, value, atLeast, atMost, unit = '', digits = 2 }) => {
        const met = value >= (atLeast ?? Number.NEGATIVE_INFINITY) && value <= (atMost ?? Number.POSITIVE_INFINITY);
        if (!met) process.exitCode = 1;
        const [words, bound] = atLeast === undefined ? ['at most', atMost] : ['at least', atLeast];
        return {
          what: name,
          reached: `${value.toFixed(digits)}${unit}`,
          goal: bound === undefined ? '' : `${words} ${bound}${unit}`,
          met: bound === undefined ? '' : met ? 'yes' : 'NO',
        };
      });
      console.table(rows);
      console.log(`load average at the end ${load()}`);
    },
  };
}

/** Total time that the host has taken from the processors of this virtual machine. Linux only. */
export function stolenMs(): number {
  const [, , , , , , , , steal] = readFileSync('/proc/stat', 'utf8').split('\n')[0]?.split(/ +/) ?? [];
  return (Number(steal ?? 0) * 1000) / TICKS_PER_SECOND;
}

/** Resident memory of a process in MB; 0 when it is gone. Linux only. */
export function residentMb(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

export function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** Processor time that processes have used so far. Less affected by other load than wall time. Linux only. */
export function processorSeconds(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
      return sum + (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
    } catch {
      // It has ended, as readers of files do.
      return sum;
    }
  }, 0);
}
