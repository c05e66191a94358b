import { readdirSync, readFileSync } from 'node:fs';
import { cpus, setPriority } from 'node:os';

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
  const sum = { ran: 0, waited: 0 };
  for (const thread of threadsOf(pid)) {
    try {
      const file = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8');
      const [onCore = 0, queued = 0] = file.split(' ').map(Number);
      sum.ran += onCore / 1e6;
      sum.waited += queued / 1e6;
    } catch {
      // It ended meanwhile.
    }
  }
  return sum;
}

function threadsOf(pid: string): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

const idleMs = () => cpus().reduce((sum, { times }) => sum + times.idle, 0);

/** In milliseconds. Undefined where the system does not tell. */
export function timeOnCores(pids: readonly (number | undefined)[]): number | undefined {
  if (process.platform !== 'linux') return undefined;
  return pids.reduce((sum: number, pid) => sum + timesOf(String(pid)).ran, 0);
}

/** The engine processes of this server whose title contains the text. Linux only. */
function enginesOf({ server, engines }: Pick<Sought, 'server' | 'engines'>): string[] {
  const isSought = (pid: string) => {
    try {
      const title = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      const parent = /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
      return parent === String(server) && title.includes('baobab-engine') && title.includes(engines);
    } catch {
      return false;
    }
  };
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && isSought(name));
}

/** Of all threads of the engine processes. Raising a priority takes the rights of root. Linux only. */
export function setEnginePriority(sought: Pick<Sought, 'server' | 'engines'>, niceness: number): void {
  for (const thread of enginesOf(sought).flatMap(threadsOf)) setPriority(Number(thread), niceness);
}

/** Undefined where the system does not tell. */
export function cpuTimes({ server, clients, engines }: Sought): ProcessorTimes | undefined {
  if (process.platform !== 'linux') return undefined;
  const sum: ProcessorTimes = { server: 0, clients: 0, engines: 0, enginesWaited: 0, idle: idleMs() };
  sum.server = timesOf(String(server)).ran;
  sum.clients = timesOf(String(clients)).ran;
  for (const pid of enginesOf({ server, engines })) {
    const { ran, waited } = timesOf(pid);
    sum.engines += ran;
    sum.enginesWaited += waited;
  }
  return sum;
}
