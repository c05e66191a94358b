import { readFile } from 'node:fs/promises';

/**
 * The proportional share of a process: pages that several processes map (the runtime, weights read by mmap) count once among
 * them. Undefined where the kernel does not tell.
 */
export async function proportionalBytes(pid: number): Promise<number | undefined> {
  try {
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
    const kilobytes = /^Pss:\s+(\d+) kB$/m.exec(rollup)?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
  } catch {
    return undefined;
  }
}
