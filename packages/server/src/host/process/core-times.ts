import { readdirSync, readFileSync } from 'node:fs';

/** Times of all threads of a process together, since they began. */
export interface CoreTimes {
  /** On a core. */
  ranMs: number;
  /** Ready to run, but without a core. */
  waitedMs: number;
}

/** Undefined where the kernel does not say. */
export function coreTimes(pid: number): CoreTimes | undefined {
  try {
    const times = readdirSync(`/proc/${pid}/task`).map((thread) =>
      threadTimes(`/proc/${pid}/task/${thread}/schedstat`),
    );
    return {
      ranMs: times.reduce((sum, each) => sum + each.ranMs, 0),
      waitedMs: times.reduce((sum, each) => sum + each.waitedMs, 0),
    };
  } catch {
    return undefined;
  }
}

/** The file has both times in nanoseconds, then the number of turns. */
function threadTimes(file: string): CoreTimes {
  const [ran, waited] = readFileSync(file, 'utf8').split(' ').map(Number);
  return { ranMs: (ran ?? 0) / 1e6, waitedMs: (waited ?? 0) / 1e6 };
}
