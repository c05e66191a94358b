import { readFile } from 'node:fs/promises';
import type { EngineProcess } from './engine-process.ts';

/** Real memory of some processes: measured where the kernel reports it, otherwise as the processes themselves reported it. */
export async function totalBytes(processes: readonly EngineProcess[]): Promise<number> {
  const sizes = await Promise.all(
    processes.map(async (engine) => {
      const measured = engine.pid === undefined ? undefined : await proportionalBytes(engine.pid);
      return measured ?? engine.residentBytes();
    }),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** Pages that several processes map (the runtime, weights read by mmap) count once among them. Includes the processes that it has started. */
async function proportionalBytes(pid: number): Promise<number | undefined> {
  try {
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
    const sizes = await Promise.all(children.split(' ').filter(Boolean).map(Number).map(proportionalBytes));
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
    const kilobytes = /^Pss:\s+(\d+) kB$/m.exec(rollup)?.[1];
    if (kilobytes === undefined) return undefined;
    return sizes.reduce<number>((sum, size) => sum + (size ?? 0), Number(kilobytes) * 1024);
  } catch {
    return undefined;
  }
}
