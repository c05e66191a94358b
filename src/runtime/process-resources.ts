import { readFile } from 'node:fs/promises';

const CLOCK_TICKS_PER_SECOND = 100;

/** What a process uses. Available on Linux only; zeros elsewhere. */
export async function resourcesOf(pid: number | undefined): Promise<{ memoryBytes: number; cpuSeconds: number }> {
  const read = (name: string) => readFile(`/proc/${pid}/${name}`, 'utf8').catch(() => '');
  const [status, stat] = await Promise.all([read('status'), read('stat')]);
  // The second field is the command in brackets. User and system time are fields 14 and 15.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return {
    memoryBytes: Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024,
    cpuSeconds: (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / CLOCK_TICKS_PER_SECOND,
  };
}
