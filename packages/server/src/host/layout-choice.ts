import type {
  LayoutShape,
  LayoutTrialModule,
  LocalRuntime,
  MachineFacts,
  MachineShape,
  MeasuredLayout,
} from '@baobab/core/engine/driver.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { Processor } from '@baobab/core/runtime/processor.ts';
import { type Model, modelName } from './model.ts';

/** The layouts that were fastest on this machine. Measured once for each model and kept between starts. */
export interface LayoutChoice {
  /** The fastest layout, if it was measured. */
  measured(model: Model): Promise<LayoutShape | undefined>;
  /**
   * Measures where that was not done yet, which takes all cores for some seconds. Returns the fastest layout if it is clearly faster
   * than the one in use.
   */
  improve(model: Model, runtime: LocalRuntime, trial: Trial): Promise<LayoutShape | undefined>;
}

export interface Trial {
  machine: MachineShape;
  current: LayoutShape;
  settings: Readonly<Record<string, unknown>>;
}

export interface LayoutChoiceDependencies {
  facts: MachineFacts;
  processor: Processor;
  runtimeOf(model: Model): LocalRuntime | undefined;
  environment: Readonly<Record<string, string | undefined>>;
  /** Fires when the service stops. */
  signal: AbortSignal;
  logger: Pick<Logger, 'info' | 'warn'>;
}

interface Finding {
  fingerprint: string;
  best: LayoutShape;
}

/** A reload interrupts the model for its load time, so a smaller gain is left for the next load. */
const WORTHWHILE = 1.1;

export function createLayoutChoice(dependencies: LayoutChoiceDependencies): LayoutChoice {
  const { facts, processor, runtimeOf, environment, signal, logger } = dependencies;
  /** Those that failed or were compared in this process. */
  const done = new Set<string>();

  async function fingerprintOf(model: Model, module: LayoutTrialModule): Promise<string> {
    const { cores, physicalCores, sockets } = processor;
    const options = JSON.stringify(model.version.engine);
    return [`${cores} of ${physicalCores} cores, ${sockets} sockets`, module.fingerprint(), options].join(' | ');
  }

  const load = (module: URL): Promise<LayoutTrialModule> => import(module.href);
  const factName = (model: Model) => `layout.${modelName(model)}`;

  async function measured(model: Model): Promise<LayoutShape | undefined> {
    const trials = runtimeOf(model)?.trials;
    const finding = facts.get(factName(model)) as Partial<Finding> | undefined;
    if (trials === undefined || finding?.best === undefined) return undefined;
    return finding.fingerprint === (await fingerprintOf(model, await load(trials.module))) ? finding.best : undefined;
  }

  return {
    measured,
    async improve(model, { trials }, { machine, current, settings }) {
      const name = modelName(model);
      if (trials === undefined || done.has(name)) return undefined;
      done.add(name);
      const { engine } = model.version;
      const candidates = trials.candidates(engine, settings, machine);
      if (candidates.length < 2 || (await measured(model)) !== undefined) return undefined;
      const module = await load(trials.module);
      let results: readonly MeasuredLayout[];
      try {
        results = await module.measure({ engine, directory: machine.directory, candidates, environment, signal });
      } catch (error) {
        if (signal.aborted) return undefined;
        logger.warn({ model: name, err: error }, 'the fastest layout of a model could not be measured');
        return undefined;
      }
      const [fastest] = results.toSorted((left, right) => right.tokensPerSecond - left.tokensPerSecond);
      if (fastest === undefined) return undefined;
      const best = { processes: fastest.processes, threads: fastest.threads };
      facts.set(factName(model), { fingerprint: await fingerprintOf(model, module), best } satisfies Finding);
      logger.info({ model: name, results, best }, 'measured the layouts of a model');
      const now = results.find((each) => each.processes === current.processes && each.threads === current.threads);
      const gain = fastest.tokensPerSecond / (now?.tokensPerSecond ?? 0);
      return gain >= WORTHWHILE ? best : undefined;
    },
  };
}
