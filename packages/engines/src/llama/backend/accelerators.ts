import {
  type Accelerator,
  type AcceleratorDependencies,
  type Accelerators,
  type MachineFacts,
  PROCESSOR,
  type TestedBackend,
} from '@baobab/core/engine/driver.ts';
import { type Installation, readInstallation } from './installation.ts';
import { runSelfTest, type SelfTestOutcome } from './self-test-run.ts';
import { buildBackend } from './source-build.ts';

/** The backends for GPUs, the fastest first. */
const BACKENDS = ['metal', 'cuda', 'vulkan'] as const;
const BUILD_COMMAND = 'npx baobab gpu build';

/** What a self-test found, as the machine's facts keep it. */
interface Finding {
  fingerprint: string;
  outcome: SelfTestOutcome;
}

/** What touches the machine. Tests have another one. */
export interface Machine extends Installation {
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
