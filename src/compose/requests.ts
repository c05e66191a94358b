import type { Store } from '../adapters/store.ts';
import type { ResolvedConfig } from '../config/load.ts';
import type { Logger } from '../ports/logger.ts';
import type { RequestSink } from '../ports/request-log.ts';
import { systemClock as clock } from '../runtime/clock.ts';
import { createPerformance } from '../services/requests/performance.ts';
import { createRequestRecorder } from '../services/requests/request-recorder.ts';
import { createRequestRetention } from '../services/requests/request-retention.ts';
import { createRequestTexts } from '../services/requests/request-texts.ts';
import { createRequests } from '../services/requests/requests.ts';

export interface RequestsOptions {
  config: ResolvedConfig;
  store: Store;
  logger: Logger;
}

/** The list of requests: written when they end, read by the console, removed after a while. */
export function composeRequests({ config, store, logger }: RequestsOptions) {
  const { requests: log, requestTexts, accounts, keys } = store;
  const recorder = createRequestRecorder({
    log,
    onError: (error) => logger.error({ err: error }, 'failed to add requests to the list'),
  });
  const texts = createRequestTexts({
    texts: requestTexts,
    accounts,
    settings: config.requests,
    clock,
    onError: (error) => logger.error({ err: error }, 'failed to store the text of a request'),
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
    texts,
    list: createRequests({ log, recorder, keys }),
    performance: createPerformance({ log, recorder, clock }),
    retention: createRequestRetention({ log, accounts, texts, settings: config.requests, clock }),
  };
}
