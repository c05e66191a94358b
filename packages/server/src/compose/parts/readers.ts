import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { AudioReader, PdfReader } from '@baobab/core/ports/file-readers.ts';
import { steadyClock } from '@baobab/core/runtime/clock.ts';
import { allButAQuarter, createSlots, type Slots } from '../../admission/slots.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { ifInstalled, NEEDS_ENGINES } from '../../drivers.ts';

const installed = await ifInstalled(() => import('@baobab/engines/readers.ts'));

const refusal = (what: string) => new ApiError('unsupported_parameter', `${what} here ${NEEDS_ENGINES}.`);

/** One queue for all processes that read files of one kind. */
function readerSlots(count: number, queue: { length: number; timeoutMs: number | undefined }): Slots {
  const slots = createSlots({
    queueLength: queue.length,
    queueTimeoutMs: queue.timeoutMs,
    maxPerAccount: allButAQuarter(count),
    clock: steadyClock,
  });
  slots.setCapacity(count);
  return slots;
}

export function composePdfReader(config: ResolvedConfig): PdfReader {
  if (installed === undefined) return { read: () => Promise.reject(refusal('Reading a PDF')) };
  // Those that wait have a turn when others have used up their processor time, which takes long on a busy machine.
  const readers = readerSlots(config.documents.readers, { length: config.engines.queueLength, timeoutMs: undefined });
  return installed.createPdfReader({ readers, limits: config.documents, clock: steadyClock });
}

export function composeAudioReader(config: ResolvedConfig, temporaryDirectory: string): AudioReader {
  if (installed !== undefined) {
    const { queueLength, queueTimeoutSeconds } = config.engines;
    const queue = { length: queueLength, timeoutMs: queueTimeoutSeconds * 1000 };
    return installed.createAudioReader({ temporaryDirectory, decoders: readerSlots(config.audio.decoders, queue) });
  }
  return {
    read() {
      throw refusal('Decoding audio');
    },
  };
}
