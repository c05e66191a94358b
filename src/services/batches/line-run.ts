import { setTimeout as sleep } from 'node:timers/promises';
import type { Batch, BatchEndpoint } from '../../domain/batch.ts';
import type { BatchRequest, LineResult } from '../../domain/batch-line.ts';
import { ApiError } from '../../errors/api-error.ts';
import { errors } from '../../errors/errors.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Logger } from '../../ports/logger.ts';
import { createId } from '../../runtime/ids.ts';
import type { InferenceCall } from '../inference.ts';
import type { KeyAuthority } from './key-authority.ts';
import type { LineSlot, LineSlots } from './line-slots.ts';

/** Runs the body of one line as the endpoint would run the body of a request. */
export interface LineExecutor {
  /** The JSON of the answer; throws what the endpoint would throw. */
  execute(endpoint: BatchEndpoint, body: unknown, call: InferenceCall): Promise<Uint8Array>;
}

/** Limits and full queues pass; they are waited for as long as the batch has time. */
const MAX_WAIT_MS = 30_000;
/** Faults may pass too, but not for ever. */
const FAULT_WAITS_MS = [1_000, 5_000];

export interface LineRunDependencies {
  executor: LineExecutor;
  authority: KeyAuthority;
  slots: LineSlots;
  discountPercent: number;
  clock: Clock;
  logger: Pick<Logger, 'error'>;
}

export interface LineSignals {
  /** No new attempt: the batch is cancelled, expired, or the server stops. */
  stop: AbortSignal;
  /** Give up at once. */
  abort: AbortSignal;
}

export interface LineRun {
  /** Holds the slot while it works and gives it back. Undefined: it was stopped and may run again. */
  run(
    batch: Batch,
    line: { number: number; request: BatchRequest },
    slot: LineSlot,
    signals: LineSignals,
  ): Promise<LineResult | undefined>;
}

async function waited(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(ms, undefined, { signal });
    return true;
  } catch {
    return false;
  }
}

export function createLineRun(dependencies: LineRunDependencies): LineRun {
  const { executor, authority, slots, discountPercent, clock, logger } = dependencies;

  /** How long to wait before the next attempt; undefined: this failure is the answer. */
  function retryAfterMs(failure: ApiError, faults: number): number | undefined {
    if (failure.type === 'rate_limit_error') return Math.min(MAX_WAIT_MS, (failure.retryAfterSeconds ?? 1) * 1000);
    return failure.status >= 500 ? FAULT_WAITS_MS[faults] : undefined;
  }

  return {
    async run(batch, { number, request }, firstSlot, { stop, abort }) {
      let slot: LineSlot | undefined = firstSlot;
      let faults = 0;
      try {
        while (true) {
          const requestId = createId('req', clock.now());
          try {
            const principal = await authority.principal(batch.keyId);
            const body = await executor.execute(batch.endpoint, request.body, {
              requestId,
              principal,
              regionPin: undefined,
              signal: abort,
              priority: 'batch',
              endpoint: batch.endpoint,
              // The same on every attempt, so that a line that ran already when a crash came is not billed again.
              billingId: `${batch.id}:${number}`,
              wholeAnswersOnly: true,
              discountPercent,
            });
            return { status: 200, requestId, body };
          } catch (error) {
            if (abort.aborted) return undefined;
            const failure = error instanceof ApiError ? error : errors.internal(error);
            const waitMs = retryAfterMs(failure, faults);
            if (waitMs === undefined) {
              if (failure.status >= 500) {
                logger.error({ err: failure.cause ?? failure, batch: batch.id, line: number }, 'a batch line failed');
              }
              return { status: failure.status, requestId, body: Buffer.from(JSON.stringify(failure.toBody())) };
            }
            if (failure.status >= 500) faults += 1;
            slot.release();
            if (!(await waited(waitMs, stop))) return undefined;
            slot = await slots.take({ accountId: batch.accountId, batchId: batch.id }, stop);
            if (slot === undefined) return undefined;
          }
        }
      } finally {
        slot?.release();
      }
    },
  };
}
