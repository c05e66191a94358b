import { repeatWork, type UpstreamAttempt } from '@baobab/core/domain/attempts.ts';
import {
  type Batch,
  type BatchEndpoint,
  type BatchRequest,
  type LineResult,
  lineBillingId,
} from '@baobab/core/domain/batch.ts';
import { type Consumption, NOTHING_USED } from '@baobab/core/domain/measures.ts';
import { BATCH_OPERATIONS } from '@baobab/core/domain/operations.ts';
import type { Account, Principal } from '@baobab/core/domain/principal.ts';
import type { BatchLane } from '@baobab/core/engine/engine.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { toClientError } from '@baobab/core/errors/store-unavailable.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { RequestEntry, RequestSink } from '@baobab/core/ports/request-log.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import type { LineLanes } from '../../admission/line-lanes.ts';
import type { InferenceCall, InferenceObserver } from '../../inference/call.ts';
import type { KeyAuthority } from '../access/key-authority.ts';
import { waited } from '../processes/outage-patience.ts';

const MAX_ATTEMPTS = 16;

interface LineEnd {
  status: number;
  /** Error code. */
  code: string | null;
  message: string | null;
  time: number;
  durationMs: number;
}

/** Collects what the list of requests holds about one line of a batch. */
function createLineTrace(requestId: string) {
  let model: string | null = null;
  let version: string | null = null;
  let region: string | null = null;
  let used: Consumption = NOTHING_USED;
  let costNanoUsd = 0;
  let firstTokenMs: number | null = null;
  let truncated: number | undefined;
  const attempts: UpstreamAttempt[] = [];

  const observer: InferenceObserver = {
    decided(facts) {
      model = facts.slug;
      version = facts.version;
    },
    failed(named) {
      if (model === null) ({ slug: model, version } = named);
    },
    settled(bill) {
      ({ slug: model, version, region, used, costNanoUsd } = bill);
      firstTokenMs = bill.firstTokenMs === null ? null : Math.round(bill.firstTokenMs);
    },
    truncated(inputs) {
      truncated = inputs;
    },
    attempted(attempt) {
      if (attempts.length < MAX_ATTEMPTS) attempts.push(attempt);
    },
  };

  return {
    observer,
    truncated: () => truncated,
    entry(
      { endpoint }: Batch,
      { account, key }: Principal,
      { status, code, message, time, durationMs }: LineEnd,
    ): RequestEntry {
      const names = { id: requestId, time, accountId: account.id, keyId: key.id, endpoint, model, version, region };
      return {
        ...names,
        ...used,
        status,
        code,
        message,
        costNanoUsd,
        durationMs,
        firstTokenMs,
        replayed: false,
        attempts,
      };
    },
  };
}

/** Runs the body of one line as the endpoint would run the body of a request. */
export interface LineExecutor {
  /** Returns the JSON of the answer. Throws what the endpoint would throw. */
  execute(endpoint: BatchEndpoint, body: unknown, call: InferenceCall): Promise<Uint8Array>;
  /** The JSON of an error, in the shape of the endpoint. */
  errorBody(endpoint: BatchEndpoint, error: ApiError, requestId: string): Uint8Array;
  /** The status that the caller, if it is known, gets with an error. */
  statusOf(error: ApiError, caller: Principal | undefined): number;
}

export interface LineRunDependencies {
  executor: LineExecutor;
  authority: KeyAuthority;
  lanes: Pick<LineLanes, 'take'>;
  /** Where the body of a line runs. */
  laneOf(body: unknown, account: Account | undefined): BatchLane;
  discountPercent: number;
  clock: Clock;
  /** For durations. */
  steadyClock: Clock;
  logger: Pick<Logger, 'error'>;
  /** Gets the lines that have ended. */
  requests?: RequestSink | undefined;
}

export interface LineSignals {
  /** Start no new attempt: the batch was cancelled or expired, or the server stops. */
  stop: AbortSignal;
  /** Abort running attempts. */
  abort: AbortSignal;
}

/** A batch and the account that it belongs to, if its key may still be used. */
export interface AccountBatch {
  batch: Batch;
  account: Account | undefined;
}

const MAX_MESSAGE = 500;

/** As the line has it, in the shape of its endpoint. */
const messageOf = (body: Uint8Array): string =>
  (JSON.parse(new TextDecoder().decode(body)) as { error: { message: string } }).error.message.slice(0, MAX_MESSAGE);

export interface LineRun {
  withAccount(batch: Batch): Promise<AccountBatch>;
  /** Waits for a slot and holds it while the line runs. Undefined: it was stopped and may run again. */
  run(
    batch: AccountBatch,
    line: { number: number; request: BatchRequest },
    signals: LineSignals,
  ): Promise<LineResult | undefined>;
}

export function createLineRun(dependencies: LineRunDependencies): LineRun {
  const { executor, authority, lanes, laneOf, discountPercent, clock, steadyClock, logger, requests } = dependencies;

  return {
    async withAccount(batch) {
      // A key that may not be used any more fails when the line runs.
      const principal = await authority.principal(batch, []).catch(() => undefined);
      return { batch, account: principal?.account };
    },
    async run({ batch, account }, { number, request }, { stop, abort }) {
      const line = { accountId: batch.accountId, batchId: batch.id, weight: account?.weight };
      const takeSlot = () => lanes.take(laneOf(request.body, account), line, stop);
      let slot = await takeSlot();
      if (slot === undefined) return undefined;
      let counted = 0;
      try {
        while (true) {
          const requestId = createId('req', clock.now());
          const startedAt = steadyClock.now();
          const trace = createLineTrace(requestId);
          let principal: Principal | undefined;
          const record = (status: number, failure: { code: string; message: string } | null) => {
            const told = principal?.account.zeroRetention ? null : (failure?.message ?? null);
            const end = {
              status,
              code: failure?.code ?? null,
              message: told,
              time: clock.now(),
              durationMs: steadyClock.now() - startedAt,
            };
            if (principal !== undefined) requests?.record(trace.entry(batch, principal, end));
          };
          try {
            principal = await authority.principal(batch, ['batches.create', BATCH_OPERATIONS[batch.endpoint]]);
            const body = await executor.execute(batch.endpoint, request.body, {
              requestId,
              principal,
              regionPin: undefined,
              signal: abort,
              priority: 'batch',
              endpoint: batch.endpoint,
              billingId: lineBillingId(batch.id, number),
              wholeAnswersOnly: true,
              discountPercent,
              observer: trace.observer,
            });
            record(200, null);
            return { status: 200, requestId, body, truncated: trace.truncated() };
          } catch (error) {
            if (abort.aborted) return undefined;
            const failure = toClientError(error);
            const next = repeatWork({ failure, counted, hasDeadline: true });
            if (next === undefined) {
              if (failure.status >= 500) {
                logger.error(
                  { err: failure.cause ?? failure, batch: batch.id, line: number },
                  'a batch line failed, recording the error as its result',
                );
              }
              const body = executor.errorBody(batch.endpoint, failure, requestId);
              const status = executor.statusOf(failure, principal);
              record(status, { code: failure.code, message: messageOf(body) });
              return { status, requestId, body };
            }
            if (next.counts) counted += 1;
            slot.release();
            if (!(await waited(next.waitMs, stop))) return undefined;
            slot = await takeSlot();
            if (slot === undefined) return undefined;
          }
        }
      } finally {
        slot?.release();
      }
    },
  };
}
