import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';

/**
 * How many threads may compute. The threads of llama.cpp wait for each other after every operation, and spin meanwhile. One that has to
 * share its core with another program stops all of them: two threads on two busy cores were 40 times slower than one. So there are as
 * many threads as other programs leave cores for.
 */
export interface ThreadGovernor {
  threads(): number;
}

/** Processor time since some start, in milliseconds. */
export interface ProcessorUsage {
  /** Time of all programs on all cores. */
  busyMs: number;
  /** Time of this process. */
  ownMs: number;
  cores: number;
}

const SAMPLE_MS = 200;
/** Samples in a row that must allow more threads before there are more. */
const PATIENCE = 3;
/** Other programs may take this much of a core without a thread less: short tasks, such as sending the last token. */
const TOLERANCE = 0.5;

export function createThreadGovernor(
  most: number,
  read: () => ProcessorUsage = readUsage,
  now: () => number = () => performance.now(),
): ThreadGovernor {
  let lastAt = now();
  let last = read();
  let threads = most;
  let allowing = 0;

  function update(): void {
    // Asked before every token. Reading the figures of a machine with many cores and devices takes longer than all else between two.
    const at = now();
    const passedMs = at - lastAt;
    if (passedMs < SAMPLE_MS) return;
    const usage = read();
    const othersMs = usage.busyMs - last.busyMs - (usage.ownMs - last.ownMs);
    lastAt = at;
    last = usage;
    const free = usage.cores - othersMs / passedMs;
    const wanted = Math.max(1, Math.min(most, Math.floor(free + TOLERANCE)));
    allowing = wanted > threads ? allowing + 1 : 0;
    if (wanted < threads || allowing >= PATIENCE) {
      threads = wanted;
      allowing = 0;
    }
  }

  return {
    threads() {
      if (most > 1) update();
      return threads;
    },
  };
}

/** Clock ticks of the kernel's accounting, the same on all common builds. */
const TICK_MS = 10;
/** The fields of a line of /proc/stat are user, nice, system, idle, iowait, irq, softirq. */
const IDLE = [3, 4];

function readUsage(): ProcessorUsage {
  const { user, system } = process.cpuUsage();
  return { ownMs: (user + system) / 1000, ...readMachine() };
}

function readMachine(): Pick<ProcessorUsage, 'busyMs' | 'cores'> {
  if (process.platform !== 'linux') {
    const times = cpus().map((cpu) => cpu.times);
    return {
      busyMs: times.reduce((sum, each) => sum + each.user + each.nice + each.sys + each.irq, 0),
      cores: times.length,
    };
  }
  return parseStat(readFileSync('/proc/stat', 'utf8'));
}

export function parseStat(stat: string): Pick<ProcessorUsage, 'busyMs' | 'cores'> {
  const [total = '', ...lines] = stat.split('\n');
  const ticks = total.split(/\s+/).slice(1, 8).map(Number);
  const busy = ticks.reduce((sum, each, at) => (IDLE.includes(at) ? sum : sum + each), 0);
  return { busyMs: busy * TICK_MS, cores: lines.filter((line) => /^cpu\d/.test(line)).length };
}
