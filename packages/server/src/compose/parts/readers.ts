import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { AudioReader, PdfReader } from '@baobab/core/ports/file-readers.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { steadyClock } from '@baobab/core/runtime/clock.ts';
import { allButAQuarter, createSlots, type Slots } from '../../admission/slots.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { ifInstalled, NEEDS_ENGINES } from '../../drivers.ts';
import type { ReaderSeal } from '../../services/operators/system.ts';

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

export interface FileReaders {
  pdf: PdfReader;
  audio: AudioReader;
  seal: ReaderSeal;
}

export function composeReaders(
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
