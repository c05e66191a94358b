import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { llamaLibrary, newestBuild, packageOf } from './local-builds.ts';

export type GpuKind = 'nvidia' | 'other';

/** What this machine has for llama.cpp to run on. */
export interface Installation {
  /** Undefined when there is none. */
  gpu(): GpuKind | undefined;
  /** Identifies driver, GPUs and runtime of a backend: what a self-test found holds until it changes. Undefined: not installed. */
  fingerprint(backend: string): string | undefined;
  /** Whether the backend was built on this machine. */
  isBuiltHere(backend: string): boolean;
}

const NVIDIA = ['/proc/driver/nvidia/version', '/dev/nvidiactl', '/dev/nvidia0', '/dev/dxg'];
const DRIVER_VERSIONS = ['/proc/driver/nvidia/version', '/sys/module/nvidia/version', '/sys/module/amdgpu/version'];

export function readInstallation(environment: Readonly<Record<string, string | undefined>>): Installation {
  const library = llamaLibrary();
  const { version }: { version: string } = JSON.parse(readFileSync(join(library, 'package.json'), 'utf8'));
  const isPackaged = (backend: string) =>
    existsSync(join(library, '..', '@node-llama-cpp', packageOf(backend), 'bins'));

  return {
    gpu,
    fingerprint(backend) {
      const built = newestBuild(backend, library)?.builtAt.toISOString();
      if (built === undefined && !isPackaged(backend)) return undefined;
      const driver = DRIVER_VERSIONS.flatMap((path) => firstLine(path) ?? []).join('; ');
      const visible = environment.CUDA_VISIBLE_DEVICES ?? 'all';
      return [version, built === undefined ? 'package' : `built ${built}`, driver, visible].join(' | ');
    },
    isBuiltHere: (backend) => newestBuild(backend, library) !== undefined,
  };
}

function gpu(): GpuKind | undefined {
  if (process.platform !== 'linux') return 'other';
  if (NVIDIA.some((path) => existsSync(path))) return 'nvidia';
  return existsSync('/dev/kfd') || renderNodes() > 0 ? 'other' : undefined;
}

function renderNodes(): number {
  try {
    return readdirSync('/dev/dri').filter((name) => name.startsWith('renderD')).length;
  } catch {
    return 0;
  }
}

function firstLine(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').split('\n')[0]?.trim();
  } catch {
    return undefined;
  }
}
