import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { RequestSink } from '@baobab/core/ports/request-log.ts';
import { createRepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';
import type { Store } from '../../adapters/store.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { createPerformance } from '../../services/requests/performance.ts';
import { createRequestRecorder } from '../../services/requests/request-recorder.ts';
import { createRequestRetention } from '../../services/requests/request-retention.ts';
import { createRequestTexts } from '../../services/requests/request-texts.ts';
import { createRequests } from '../../services/requests/requests.ts';

export interface RequestsOptions {
  config: ResolvedConfig;
  store: Store;
  clock: Clock;
  logger: Logger;
}

/** Without a failure for so long, the next one is logged at once. */
const FAILURE_OVER_MS = 60_000;

export type RequestParts = ReturnType<typeof composeRequests>;

/** The list of requests: written when they end, read by the console, removed after a while. */
export function composeRequests({ config, store, clock, logger }: RequestsOptions) {
  const failureOf = (text: string) => createRepeatedFailure({ logger, clock, text, overAfterMs: FAILURE_OVER_MS });
  const { requests: log, requestTexts, keys } = store;
  const recorder = createRequestRecorder({
    log,
    onError: failureOf('failed to add requests to the list').failed,
  });
  const texts = createRequestTexts({
    texts: requestTexts,
    settings: config.requests,
    clock,
    onError: failureOf('failed to store the text of a request').failed,
  });
  const sink: RequestSink = {
    record(entry, text) {
      if (config.requests.retentionDays === 0) return;
      recorder.record(entry);
      if (text !== undefined) texts.keep(text);
    },
  };
  return {
    recorder,
    sink,
    requestTexts: texts,
    requestList: createRequests({ log, recorder, keys }),
    performance: createPerformance({ log, recorder, clock }),
    retention: createRequestRetention({ log, texts, settings: config.requests, clock }),
  };
}
