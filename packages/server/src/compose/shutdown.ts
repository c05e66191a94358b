import { errors } from '@baobab/core/errors/errors.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { steadyClock as clock } from '@baobab/core/runtime/clock.ts';
import type { ControlServer } from '../control/server.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { createServer } from '../http/server.ts';
import type { InferenceService } from '../inference/pipeline.ts';
import type { BatchRunner } from '../services/batches/runner.ts';
import type { ResponseRunner } from '../services/responses/runner.ts';
import type { BackgroundJobs } from './background-jobs.ts';

/** A request that does not end when it is aborted must not keep the server from stopping. */
const SETTLE_MS = 5_000;
/** For aborted requests to send their error. */
const FINAL_ERROR_GRACE_MS = 1_000;

export interface ShutdownDependencies {
  server: Awaited<ReturnType<typeof createServer>>;
  /** Undefined in a worker: the supervisor has it. */
  control: ControlServer | undefined;
  runner: BatchRunner;
  responseRunner: ResponseRunner;
  inference: InferenceService;
  fleet: Fleet;
  background: BackgroundJobs;
  drainTimeoutMs: number;
  logger: Logger;
}

/** Stops taking requests, lets running ones end until the deadline and aborts the others. Everything that ran is billed afterwards. */
export async function shutDown(dependencies: ShutdownDependencies): Promise<void> {
  const { server, control, runner, responseRunner, inference, fleet, background, drainTimeoutMs, logger } =
    dependencies;
  const deadlineAt = clock.now() + drainTimeoutMs;
  logger.info({ drainTimeoutMs, running: server.running.size }, 'stopping, waiting for running requests');

  async function settleRequests(): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, SETTLE_MS);
    await Promise.race([inference.idle(), late.promise]);
    clearTimeout(timer);
  }

  let disconnect: NodeJS.Timeout | undefined;
  const deadline = setTimeout(() => {
    server.running.stopAll(errors.shuttingDown());
    disconnect = setTimeout(() => server.server.closeAllConnections(), FINAL_ERROR_GRACE_MS);
  }, drainTimeoutMs);
  // Batches stop first, so that no line takes time from the requests that are left.
  const workStopped = [runner.stop(drainTimeoutMs), responseRunner.stop(drainTimeoutMs)];
  await Promise.all([...workStopped, server.close()]);
  clearTimeout(deadline);
  clearTimeout(disconnect);
  await control?.close();
  background.stopTimers();
  // Aborted requests are billed too. A hung engine drops its requests on close.
  await settleRequests();
  await fleet.close(Math.max(0, deadlineAt - clock.now()));
  await settleRequests();
  await background.stop();
}
