import { steadyClock } from '@baobab/core/runtime/clock.ts';
import { createLineExecutor } from '../../http/endpoints/batches/line-executor.ts';
import { lineFormat } from '../../http/endpoints/batches/line-format.ts';
import { createBatches } from '../../services/batches/batches.ts';
import { createBatchRunner } from '../../services/batches/runner.ts';
import { createMessageBatches } from '../../services/message-batches/message-batches.ts';
import type { Foundation } from './foundation.ts';
import type { InferenceParts, ResponseParts } from './inference.ts';
import type { ModelParts } from './models.ts';
import type { RequestParts } from './requests.ts';

/** Share of this process's time beyond which requests wait for each other. */
const OVERLOAD = 0.9;

/** Whether this process has been busy for a few calls while there are interactive requests. */
function createOverload({ fleet }: Pick<ModelParts, 'fleet'>): () => boolean {
  let last = performance.eventLoopUtilization();
  let smoothed = 0;
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    smoothed += (utilization - smoothed) / 4;
    return smoothed > OVERLOAD && fleet.interactiveRequests() > 0;
  };
}

export interface BatchesOptions extends Foundation {
  models: ModelParts;
  inference: InferenceParts;
  responses: ResponseParts;
  requests: RequestParts;
}

export type BatchParts = ReturnType<typeof composeBatches>;

/** Both kinds of batches, and what runs their lines. */
export function composeBatches(options: BatchesOptions) {
  const { config, store, identity, clock, files, retention, blobs, space, logger } = options;
  const { models, inference, responses, requests } = options;
  const { catalog, fleet } = models;
  const { embeddings, rerank, chat } = inference;
  const runner = createBatchRunner({
    batches: store.batches,
    batchSlices: store.batchSlices,
    fileRecords: store.files,
    files,
    retention,
    blobs,
    usage: store.usage,
    keys: store.keys,
    accounts: store.accounts,
    executor: createLineExecutor({ embeddings, rerank, chat, ...responses, clock }),
    requests: requests.sink,
    format: lineFormat,
    settings: config.batches,
    laneOf(body, account) {
      const reference = (body as { model?: unknown } | null)?.model;
      return fleet.batchLane(typeof reference === 'string' ? catalog.find(reference, account) : undefined);
    },
    isOverloaded: createOverload(models),
    space,
    identity,
    clock,
    steadyClock,
    logger,
  });
  return {
    runner,
    batches: createBatches({ batches: store.batches, files, settings: config.batches, clock, onChange: runner.wake }),
    messageBatches: createMessageBatches({
      batches: store.batches,
      fileRecords: store.files,
      files,
      retention,
      format: lineFormat,
      settings: { ...config.batches, retentionDays: config.files.retentionDays },
      clock,
      onChange: runner.wake,
    }),
  };
}
