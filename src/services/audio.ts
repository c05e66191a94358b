import type { TranscriptionRequest } from '../engines/engine.ts';
import { ApiError } from '../errors/api-error.ts';
import { errors } from '../errors/errors.ts';
import type { InferenceCall, InferenceService } from './inference.ts';
import type { TranscriptionEvent, TranscriptionsService } from './transcriptions.ts';

export interface AudioCommand<Source> {
  model: string;
  /** Opened only when the request is admitted. */
  source(): Promise<Source>;
  options: Omit<TranscriptionRequest, 'samples'>;
}

export type TranscriptionDone = Extract<TranscriptionEvent, { type: 'done' }>;

export interface AudioService<Source> {
  /** Resolves with the whole transcript when its usage is durable; `onSegment` sees each part as it comes. */
  transcribe(
    call: InferenceCall,
    command: AudioCommand<Source>,
    onSegment?: (event: Extract<TranscriptionEvent, { type: 'segment' }>) => void | Promise<void>,
  ): Promise<TranscriptionDone & { billedSeconds: number }>;
}

export interface AudioDependencies<Source> {
  inference: InferenceService;
  transcriptions: TranscriptionsService<Source>;
}

/** Audio is billed by the second; a begun second counts. */
const billable = (seconds: number): number => Math.ceil(seconds);

export function createAudio<Source>({ inference, transcriptions }: AudioDependencies<Source>): AudioService<Source> {
  return {
    async transcribe(call, command, onSegment) {
      const model = inference.resolve(call, command.model, 'audio');
      return inference.run(call, { model, estimatedTokens: 0 }, async ({ engine, context, settle, elapsedMs }) => {
        const { transcription } = engine;
        if (transcription === undefined)
          throw errors.modelUnavailable(model.entry.slug, 'its engine cannot transcribe');
        let region: string | undefined;
        let firstTokenMs: number | undefined;
        const running = transcriptions.transcribe({
          source: await command.source(),
          options: command.options,
          context,
          transcribe: async (request, windowContext) => {
            const result = await transcription.transcribe(request, windowContext);
            region = result.servedRegion;
            return result;
          },
        });
        try {
          for await (const event of running) {
            firstTokenMs ??= elapsedMs();
            if (event.type === 'done') {
              const billedSeconds = billable(event.durationSeconds);
              await settle({ audioSeconds: billedSeconds }, { region, firstTokenMs });
              return { ...event, billedSeconds };
            }
            await onSegment?.(event);
          }
        } catch (error) {
          const audioSeconds = billable(running.secondsSoFar());
          const status = call.signal.aborted ? 499 : error instanceof ApiError ? error.status : 500;
          if (audioSeconds > 0) await settle({ audioSeconds }, { region, firstTokenMs, status });
          throw call.signal.aborted ? errors.clientCancelled() : error;
        }
        throw errors.internal(new Error('a transcription ended without its result'));
      });
    },
  };
}
