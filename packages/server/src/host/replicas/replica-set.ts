import type { ComputeDevice, EngineModel } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { EngineProcess } from '../process/engine-process.ts';
import { Dispatcher } from './dispatcher.ts';
import { createReplicatedEngine } from './replicated-engine.ts';
import { Supervisor, type SupervisorOptions } from './supervisor.ts';

export type ReplicaSetOptions = Omit<SupervisorOptions, 'onJoined' | 'onLeft' | 'onLoadFailed'>;

export interface ReadySet {
  engine: EngineModel;
  loadMs: number;
  device: ComputeDevice | undefined;
}

/** The processes of one model behind one `EngineModel`. */
export interface ReplicaSet {
  /** Resolves when the first process has loaded; the others join as they come. Rejects when none can load. */
  readonly ready: Promise<ReadySet>;
  processes(): readonly EngineProcess[];
  close(graceMs: number): Promise<void>;
}

export function createReplicaSet(options: ReplicaSetOptions): ReplicaSet {
  const { slug, name, metrics } = options;
  const ready = Promise.withResolvers<ReadySet>();
  ready.promise.catch(() => {});
  let joined = false;

  const supervisor = new Supervisor({
    ...options,
    onJoined(replica, { capabilities, loadMs, device }) {
      dispatcher.add(replica);
      if (joined) return;
      joined = true;
      const close = () => closeSet(0);
      const engine = createReplicatedEngine({ name, capabilities, dispatcher, metrics, close });
      ready.resolve({ engine, loadMs, device });
    },
    onLeft: (replica) => dispatcher.remove(replica),
    onLoadFailed(error) {
      ready.reject(error);
      dispatcher.close(error);
    },
    onGiveUp(error, cooldownMs) {
      dispatcher.close(error);
      options.onGiveUp(error, cooldownMs);
    },
  });
  const dispatcher = new Dispatcher({
    slug,
    processes: options.processes,
    supervisor,
    onChunk: (inputs) => metrics.batchSize(name, inputs),
  });

  async function closeSet(graceMs: number): Promise<void> {
    const error = errors.modelUnavailable(slug, 'it is being unloaded');
    ready.reject(error);
    const stopped = supervisor.stop(graceMs);
    dispatcher.close(error);
    await stopped;
  }

  supervisor.start();
  return { ready: ready.promise, processes: () => supervisor.processes(), close: closeSet };
}
