import { readdirSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';

/** In milliseconds since each process started. */
export interface ProcessorTimes {
  server: number;
  clients: number;
  engines: number;
  /** Time in which the engines were ready to run and had no core. */
  enginesWaited: number;
  /** Of all cores of the machine. */
  idle: number;
}

interface Sought {
  server: number | undefined;
  clients: number | undefined;
  /** Part of the title of the engine processes. */
  engines: string;
}

/** Sums of all threads: time on a core, and time waiting for one. */
function timesOf(pid: string): { ran: number; waited: number } {
  let ran = 0;
  let waited = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const [onCore = 0, queued = 0] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8')
      .split(' ')
      .map(Number);
    ran += onCore / 1e6;
    waited += queued / 1e6;
  }
  return { ran, waited };
}

const idleMs = () => cpus().reduce((sum, { times }) => sum + times.idle, 0);

/** In milliseconds. Undefined where the system does not tell. */
export function timeOnCores(pids: readonly (number | undefined)[]): number | undefined {
  if (process.platform !== 'linux') return undefined;
  return pids.reduce((sum: number, pid) => sum + timesOf(String(pid)).ran, 0);
}

/** Undefined where the system does not tell. */
export function cpuTimes({ server, clients, engines }: Sought): ProcessorTimes | undefined {
  if (process.platform !== 'linux') return undefined;
  const sum: ProcessorTimes = { server: 0, clients: 0, engines: 0, enginesWaited: 0, idle: idleMs() };
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const title = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      if (pid === String(server)) sum.server += timesOf(pid).ran;
      else if (pid === String(clients)) sum.clients += timesOf(pid).ran;
      else if (title.includes(engines) && title.includes('baobab-engine')) {
        const { ran, waited } = timesOf(pid);
        sum.engines += ran;
        sum.enginesWaited += waited;
      }
    } catch {
      // It ended meanwhile.
    }
  }
  return sum;
}
