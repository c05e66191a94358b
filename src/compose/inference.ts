import type { Store } from '../adapters/store.ts';
import { createAudioReader } from '../audio/reader.ts';
import type { ResolvedConfig } from '../config/load.ts';
import type { Fleet } from '../engines/fleet.ts';
import { createPlaces, type Places } from '../engines/places.ts';
import { createLedgerMetrics } from '../metrics/ledger-metrics.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Counters } from '../ports/counters.ts';
import type { Logger } from '../ports/logger.ts';
import type { ProcessIdentity } from '../ports/process-identity.ts';
import { systemClock as clock } from '../runtime/clock.ts';
import type { CatalogService } from '../services/catalog.ts';
import { createChat } from '../services/chat.ts';
import { createEmbeddings } from '../services/embeddings.ts';
import type { FilesService } from '../services/files/files.ts';
import { createImages } from '../services/images.ts';
import { createInference } from '../services/inference.ts';
import { createInteractiveLoad } from '../services/interactive-load.ts';
import { createLimits } from '../services/limits.ts';
import { createMetering } from '../services/metering.ts';
import type { LeaseHolder } from '../services/process-leases.ts';
import { createRerank } from '../services/rerank.ts';
import { createTranscriptions } from '../services/transcriptions/transcriptions.ts';
import { createWindowedTranscription } from '../services/transcriptions/windowed-transcription.ts';

/** Windows of one transcription that the engine decodes at once. */
const WINDOWS_AT_ONCE = 4;

/** One queue for all audio decoders. An account leaves a quarter of them to others. */
function composeDecoders({ audio, engines }: ResolvedConfig): Places {
  const decoders = createPlaces({
    queueLength: engines.queueLength,
    queueTimeoutMs: engines.queueTimeoutSeconds * 1000,
    maxPerAccount: audio.decoders - Math.floor(audio.decoders / 4),
    clock,
  });
  decoders.setCapacity(audio.decoders);
  return decoders;
}

export interface InferenceOptions {
  config: ResolvedConfig;
  store: Store;
  identity: ProcessIdentity;
  counters: Counters;
  catalog: CatalogService;
  fleet: Fleet;
  files: FilesService;
  metrics: Metrics;
  temporaryDirectory: string;
  logger: Logger;
}

export type InferenceParts = ReturnType<typeof composeInference>;

/** Everything between a validated request and an engine: limits, metering and one service for each task. */
export function composeInference(options: InferenceOptions) {
  const { config, store, identity, counters, catalog, fleet, files, metrics, temporaryDirectory, logger } = options;
  const { ownerId, leaseMs } = identity;
  const load = createInteractiveLoad(clock);
  const inference = createInference({
    catalog,
    limits: createLimits({
      counters,
      usage: store.usage,
      clock,
      identity,
      defaults: config.limits,
      onError: (error) => logger.error({ err: error }, 'failed to settle a request in the counters'),
    }),
    metering: createMetering({ ledger: store.ledger, clock, onBilled: createLedgerMetrics(metrics.registry) }),
    engines: fleet,
    load,
    region: config.region,
    batchLimitFactor: config.batches.limitFactor,
    clock,
  });
  const images = createImages({ files, settings: config.images });
  const admissions: LeaseHolder = { renewLeases: () => counters.renew(ownerId, { now: clock.now(), leaseMs }) };
  return {
    inference,
    load,
    admissions,
    embeddings: createEmbeddings({ inference, images }),
    rerank: createRerank({ inference }),
    chat: createChat({ inference, images }),
    transcriptions: createTranscriptions({
      inference,
      windowed: createWindowedTranscription({
        reader: createAudioReader({ temporaryDirectory, decoders: composeDecoders(config) }),
        windowsAtOnce: WINDOWS_AT_ONCE,
      }),
    }),
  };
}
