import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

export interface Processor {
  /** Threads of execution that this process may use at once. */
  cores: number;
  /** Cores that share no execution units. Fewer than `cores` where the processor runs two threads on one. */
  physicalCores: number;
  sockets: number;
}

const SYSTEM = '/sys/devices/system/cpu';

/** `directory`: where the kernel describes the processor. */
export function readProcessor(cores = availableParallelism(), directory = SYSTEM): Processor {
  const topology = readTopology(directory);
  const physical = new Set(topology.map(({ siblings }) => siblings)).size || cores;
  const sockets = new Set(topology.map(({ socket }) => socket)).size || 1;
  return { cores, physicalCores: Math.min(cores, physical), sockets };
}

function readTopology(directory: string): { siblings: string; socket: string }[] {
  try {
    const names = readdirSync(directory).filter((name) => /^cpu\d+$/.test(name));
    return names.flatMap((name) => {
      const read = (file: string) => readFileSync(join(directory, name, 'topology', file), 'utf8').trim();
      return { siblings: read('thread_siblings_list'), socket: read('physical_package_id') };
    });
  } catch {
    return [];
  }
}
