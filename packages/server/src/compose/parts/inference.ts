import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { Counters } from '@baobab/core/ports/counters.ts';
import type { AudioReader, PdfReader } from '@baobab/core/ports/file-readers.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import { steadyClock } from '@baobab/core/runtime/clock.ts';
import type { Store } from '../../adapters/store.ts';
import { createAccountTurns } from '../../admission/account-turns.ts';
import { allButAQuarter, createSlots, type Slots } from '../../admission/slots.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { ifInstalled, NEEDS_ENGINES } from '../../drivers.ts';
import type { Fleet } from '../../fleet/fleet.ts';
import type { WireResponseCreator } from '../../http/endpoints/responses/endpoint.ts';
import { createResponseFormat } from '../../http/endpoints/responses/format.ts';
import { type ChatService, createChat } from '../../inference/chat.ts';
import { createEmbeddings } from '../../inference/embeddings.ts';
import { createDocuments } from '../../inference/inputs/documents.ts';
import { createImages } from '../../inference/inputs/images.ts';
import { createLimits } from '../../inference/limits/limits.ts';
import { createInference } from '../../inference/pipeline.ts';
import { createRerank } from '../../inference/rerank.ts';
import { createTokens } from '../../inference/tokens.ts';
import { createTranscriptions } from '../../inference/transcriptions.ts';
import { createWindowedTranscription } from '../../inference/windowed-transcription.ts';
import { createMetering } from '../../metering/metering.ts';
import { createLedgerMetrics } from '../../metrics/ledger-metrics.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import { createKeyAuthority } from '../../services/access/key-authority.ts';
import type { CatalogService } from '../../services/catalog/catalog.ts';
import type { FilesService } from '../../services/files/files.ts';
import type { ReaderSeal } from '../../services/operators/system.ts';
import type { LeaseHolder } from '../../services/processes/process-leases.ts';
import type { StoreClock } from '../../services/processes/store-clock.ts';
import { type ConversationsService, createConversations } from '../../services/responses/conversations.ts';
import { createResponseCreator } from '../../services/responses/create.ts';
import { createResponseEventLog, type ResponseEventLog } from '../../services/responses/event-log.ts';
import { createResponses, type ResponsesService } from '../../services/responses/responses.ts';
import { createResponseRunner, type ResponseRunner } from '../../services/responses/runner.ts';

/** Windows of one transcription that the engine decodes at once. */
const WINDOWS_AT_ONCE = 4;

/** What a response continues may be this many times as large as the largest body: stored responses repeat their settings. */
const HISTORY_BODIES = 2;
/** Stored responses and conversations that are read for one account at a time. */
const HISTORIES_AT_ONCE = 4;

export interface InferenceOptions {
  config: ResolvedConfig;
  store: Store;
  identity: ProcessIdentity;
  clock: StoreClock;
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
  const { config, store, identity, clock, counters, catalog, fleet, files, metrics, temporaryDirectory, logger } =
    options;
  const { ownerId, leaseMs } = identity;
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
    metering: createMetering({
      ledger: store.ledger,
      clock,
      onBilled: createLedgerMetrics(metrics.registry),
      runningRequests: fleet.interactiveRequests,
    }),
    engines: fleet,
    store: store.health,
    region: config.region,
    batchLimitFactor: config.batches.limitFactor,
    clock: steadyClock,
  });
  const readers = composeReaders(config, { temporaryDirectory, logger });
  const images = createImages({ files, settings: config.images });
  const documents = createDocuments({
    files,
    reader: readers.pdf,
    settings: config.documents,
  });
  const admissions: LeaseHolder = { renewLeases: () => counters.renew(ownerId, { now: clock.now(), leaseMs }) };
  return {
    inference,
    readerSeal: readers.seal,
    admissions,
    embeddings: createEmbeddings({ inference, images }),
    rerank: createRerank({ inference }),
    tokens: createTokens({ inference }),
    chat: createChat({ inference, images, documents }),
    transcriptions: createTranscriptions({
      inference,
      windowed: createWindowedTranscription({
        reader: readers.audio,
        windowsAtOnce: WINDOWS_AT_ONCE,
      }),
    }),
  };
}

export interface ResponseParts {
  responses: ResponsesService;
  conversations: ConversationsService;
  responseCreator: WireResponseCreator;
  eventLog: ResponseEventLog;
  responseRunner: ResponseRunner;
}

/** Stored responses, conversations, and the work on background responses. */
export function composeResponses(options: {
  config: ResolvedConfig;
  store: Store;
  identity: ProcessIdentity;
  clock: StoreClock;
  chat: ChatService;
  logger: Logger;
}): ResponseParts {
  const { config, store, identity, clock, chat, logger } = options;
  const settings = { ...config.responses, maxHistoryBytes: HISTORY_BODIES * config.http.bodyLimitBytes };
  const reads = createAccountTurns({ atOnce: HISTORIES_AT_ONCE });
  const conversations = createConversations({ conversations: store.conversations, settings, reads, clock });
  const eventLog = createResponseEventLog({ responses: store.responses });
  const responses = createResponses({
    responses: store.responses,
    conversations,
    settings,
    reads,
    clock,
    onChange: () => responseRunner.wake(),
  });
  const responseCreator = createResponseCreator({
    chat,
    responses,
    conversations,
    eventLog,
    format: createResponseFormat(clock),
    clock,
  });
  const responseRunner = createResponseRunner({
    responses: store.responses,
    executor: responseCreator,
    eventLog,
    authority: createKeyAuthority({ keys: store.keys, accounts: store.accounts, clock, steadyClock }),
    settings,
    identity,
    clock,
    logger,
  });
  return { responses, conversations, responseCreator, eventLog, responseRunner };
}

type OnSeal = (reason: string | undefined) => void;

const installed = await ifInstalled(() => import('@baobab/engines/readers.ts'));

const refusal = (what: string) => new ApiError('unsupported_parameter', `${what} here ${NEEDS_ENGINES}.`);

/** One queue for all processes that read files of one kind. */
function readerSlots(count: number, queue: { length: number; timeoutMs: number | undefined }): Slots {
  const slots = createSlots({
    queueLength: queue.length,
    queueTimeoutMs: queue.timeoutMs,
    clock: steadyClock,
  });
  slots.setCapacity(count, allButAQuarter(count));
  return slots;
}

interface FileReaders {
  pdf: PdfReader;
  audio: AudioReader;
  seal: ReaderSeal;
}

function composeReaders(
  config: ResolvedConfig,
  { temporaryDirectory, logger }: { temporaryDirectory: string; logger: Logger },
): FileReaders {
  const { seal, onSeal } = watchSeal(logger);
  return { pdf: composePdfReader(config, onSeal), audio: composeAudioReader(config, temporaryDirectory, onSeal), seal };
}

/** Remembers whether the last reader of a file was sealed. Logs it once if not. */
function watchSeal(logger: Logger): { seal: ReaderSeal; onSeal(reason: string | undefined): void } {
  const seal: ReaderSeal = { sealed: undefined, reason: undefined };
  let isLogged = false;
  return {
    seal,
    onSeal(reason) {
      Object.assign(seal, { sealed: reason === undefined, reason });
      if (reason === undefined || isLogged) return;
      isLogged = true;
      logger.warn(
        { reason },
        "processes that read audio and PDF files have no seccomp filter, only Node's permission model",
      );
    },
  };
}

function composePdfReader(config: ResolvedConfig, onSeal: OnSeal): PdfReader {
  if (installed === undefined) return { read: () => Promise.reject(refusal('Reading a PDF')) };
  // Those that wait have a turn when others have used up their processor time, which takes long on a busy machine.
  const readers = readerSlots(config.documents.readers, { length: config.engines.queueLength, timeoutMs: undefined });
  return installed.createPdfReader({ readers, limits: config.documents, clock: steadyClock, onSeal });
}

function composeAudioReader(config: ResolvedConfig, temporaryDirectory: string, onSeal: OnSeal): AudioReader {
  if (installed !== undefined) {
    const { queueLength, queueTimeoutSeconds } = config.engines;
    const queue = { length: queueLength, timeoutMs: queueTimeoutSeconds * 1000 };
    const decoders = readerSlots(config.audio.decoders, queue);
    return installed.createAudioReader({ temporaryDirectory, decoders, onSeal });
  }
  return {
    read() {
      throw refusal('Decoding audio');
    },
  };
}
