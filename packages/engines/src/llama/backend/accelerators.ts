import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type Accelerator,
  type AcceleratorDependencies,
  type Accelerators,
  type MachineFacts,
  PROCESSOR,
  type TestedBackend,
} from '@baobab/core/engine/driver.ts';
import { llamaLibrary, newestBuild, packageOf } from './local-builds.ts';
import { runSelfTest, type SelfTestOutcome } from './self-test-run.ts';
import { buildServer, needsOf } from './server-build.ts';

/** The backends for GPUs, the fastest first. */
const BACKENDS = ['metal', 'cuda', 'vulkan'] as const;
const BUILD_COMMAND = 'npx baobab gpu build';

/** What a self-test found, as the machine's facts keep it. */
interface Finding {
  fingerprint: string;
  outcome: SelfTestOutcome;
}

/** What this machine has for llama.cpp to run on. Tests have another one. */
export interface Machine {
  /** Undefined when there is none. */
  gpu(): 'nvidia' | 'other' | undefined;
  /** Identifies driver, GPUs and runtime of a backend: what a self-test found holds until it changes. Undefined: not installed. */
  fingerprint(backend: string): string | undefined;
  /** Whether the backend was built on this machine. */
  isBuiltHere(backend: string): boolean;
  selfTest(backend: string): Promise<SelfTestOutcome>;
}

export function createAccelerators(
  dependencies: AcceleratorDependencies,
  machine = realMachine(dependencies),
): Accelerators {
  const { settings, machine: facts, logger, environment } = dependencies;
  const wanted = String(settings.llamaGpu ?? 'auto');
  const candidates = () => {
    if (wanted === 'off' || machine.gpu() === undefined) return [];
    return wanted === 'auto' ? BACKENDS : [wanted];
  };
  const installed = () => candidates().filter((backend) => machine.fingerprint(backend) !== undefined);
  let chosen: Promise<Accelerator> | undefined;

  async function find(): Promise<Accelerator> {
    const backends = installed();
    if (backends.length === 0 && machine.gpu() === 'nvidia' && wanted !== 'off') {
      logger.warn(
        { remedy: `Run: ${BUILD_COMMAND}. Or set engines.llama_gpu: off` },
        'this machine has a GPU, but llama.cpp is installed for the processor only, so models run there',
      );
    }
    for (const backend of backends) {
      const tested = await testOnce(backend);
      if (tested.works) {
        const { names, memoryBytes } = tested.accelerator;
        logger.info({ backend, gpus: names, memoryBytes }, 'models of llama.cpp run on the GPU');
        return tested.accelerator;
      }
      const { reason, remedy } = tested;
      logger.warn({ backend, reason, remedy }, 'a GPU backend of llama.cpp fails on this machine and is left out');
    }
    return PROCESSOR;
  }

  async function testOnce(backend: string): Promise<TestedBackend> {
    const fingerprint = machine.fingerprint(backend) ?? '';
    const known = findingOf(facts, backend);
    if (known?.fingerprint === fingerprint) return describe(backend, known.outcome);
    const outcome = await machine.selfTest(backend);
    facts.set(factName(backend), { fingerprint, outcome } satisfies Finding);
    return describe(backend, outcome);
  }

  function describe(backend: string, outcome: SelfTestOutcome): TestedBackend {
    if (!outcome.works) return { backend, works: false, reason: outcome.reason, remedy: remedyOf(backend) };
    const { names, memoryBytes } = outcome;
    return { backend, works: true, accelerator: { backend, names, memoryBytes } };
  }

  function remedyOf(backend: string): string {
    return machine.isBuiltHere(backend)
      ? "Update the GPU's driver and build again, or set engines.llama_gpu: off"
      : `Build it on this machine: ${BUILD_COMMAND} --backend ${backend}`;
  }

  return {
    choose() {
      chosen ??= find().catch((error: unknown) => {
        // The next model tries again.
        chosen = undefined;
        throw error;
      });
      return chosen;
    },
    async test() {
      const results: TestedBackend[] = [];
      for (const backend of installed()) {
        facts.set(factName(backend), undefined);
        results.push(await testOnce(backend));
      }
      return results;
    },
    build: (backend) => buildBackend(backend, environment),
    buildServer: (backend, folder) => buildServer(backend, folder, environment),
  };
}

const factName = (backend: string) => `llama.${backend}`;

function findingOf(facts: MachineFacts, backend: string): Finding | undefined {
  const value = facts.get(factName(backend)) as Partial<Finding> | undefined;
  return value?.fingerprint !== undefined && value.outcome !== undefined ? (value as Finding) : undefined;
}

function realMachine({ environment }: AcceleratorDependencies): Machine {
  return { ...readInstallation(environment), selfTest: (backend) => runSelfTest({ backend, environment }) };
}

const NVIDIA = ['/proc/driver/nvidia/version', '/dev/nvidiactl', '/dev/nvidia0', '/dev/dxg'];
const DRIVER_VERSIONS = ['/proc/driver/nvidia/version', '/sys/module/nvidia/version', '/sys/module/amdgpu/version'];

function readInstallation(environment: Readonly<Record<string, string | undefined>>): Omit<Machine, 'selfTest'> {
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

function gpu(): 'nvidia' | 'other' | undefined {
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

const SCRIPT = fileURLToPath(new URL('./source-build-entry.ts', import.meta.url));

/**
 * Compiles llama.cpp and the addon with the compilers of this machine, from the source that node-llama-cpp brings. Its engines find
 * the result by themselves. The output goes to the terminal.
 */
async function buildBackend(backend: string, environment: Readonly<Record<string, string | undefined>>): Promise<void> {
  const child = spawn(process.execPath, [SCRIPT, backend], { stdio: 'inherit', env: { ...environment } });
  const [code] = await once(child, 'exit');
  if (code !== 0)
    throw new Error(`the build failed; its output says why. It needs ${needsOf(backend)}, cmake, git and npm`);
}
