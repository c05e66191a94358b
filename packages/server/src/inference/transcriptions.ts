import { reservedTokens } from '@baobab/core/domain/text-size.ts';
import type { TranscriptionRequest } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { InferenceCall } from './call.ts';
import { Steps } from './limits/admission.ts';
import type { Bounds, InferenceService } from './pipeline.ts';
import type { TimedSegment, TranscriptionEvent, WindowedTranscription } from './windowed-transcription.ts';

export interface TranscriptionCommand<Source> {
  model: string;
  /** Opened only when the request is admitted. */
  source(): Promise<Source>;
  /** Size of the encoded audio. */
  bytes: number;
  options: Omit<TranscriptionRequest, 'samples'>;
}

export type TranscriptionDone = Extract<TranscriptionEvent, { type: 'done' }>;

export type BilledTranscription = TranscriptionDone & {
  billedSeconds: number;
  /** The budget was used up before the end of the audio. */
  stoppedBy: 'budget' | undefined;
};

export interface TranscriptionsService<Source> {
  /** Resolves with the whole transcript when its usage is durable. `onSegment` gets each segment as it is ready. */
  transcribe(
    call: InferenceCall,
    command: TranscriptionCommand<Source>,
    onSegment?: (event: Extract<TranscriptionEvent, { type: 'segment' }>) => void | Promise<void>,
  ): Promise<BilledTranscription>;
}

export interface TranscriptionsDependencies<Source> {
  inference: Pick<InferenceService, 'run'>;
  windowed: WindowedTranscription<Source>;
}

/** Audio is billed by the second, rounded up. */
const billable = (seconds: number): number => Math.ceil(seconds);

/** An estimate, because the length is known only after decoding: 128 kbit/s, between Opus speech and raw samples. */
const BYTES_PER_SECOND = 16_000;
/** Tokens per second of fast English speech. */
const TOKENS_PER_SECOND = 4;

/** Audio is reserved in steps as it is decoded: a small file can hold hours. */
const STEP_SECONDS = 60;
/** Longer files are refused by the decoder. */
const MOST_SECONDS = 24 * 60 * 60;

const estimatedSeconds = (bytes: number): number => billable(bytes / BYTES_PER_SECOND);

function boundsOf(bytes: number): Bounds {
  return { tokens: estimatedSeconds(bytes) * TOKENS_PER_SECOND, most: { audioSeconds: MOST_SECONDS } };
}

/** Token limits count the tokens of the transcript. Some upstreams do not report them. */
const tokensOf = ({ tokens, text }: TimedSegment): number => tokens.length || reservedTokens(text);

export function createTranscriptions<Source>({
  inference,
  windowed,
}: TranscriptionsDependencies<Source>): TranscriptionsService<Source> {
  return {
    transcribe: (call, command, onSegment) =>
      inference.run(call, {
        modality: 'audio',
        model: command.model,
        bound: () => boundsOf(command.bytes),
        reserve: () => ({ audioSeconds: Math.min(STEP_SECONDS, estimatedSeconds(command.bytes)) }),

        async run(session) {
          const transcription = session.capability('transcription');
          let region: string | undefined;
          let limitTokens = 0;
          let stoppedBy: 'budget' | undefined;
          const { reservation } = session;
          const steps =
            reservation && new Steps(reservation, { measure: 'audioSeconds', size: STEP_SECONDS, most: MOST_SECONDS });
          const allow = (may: boolean): boolean => {
            if (!may) stoppedBy = 'budget';
            return may;
          };
          const mayDecode = (seconds: number) => {
            const may = steps?.mayUse(billable(seconds)) ?? true;
            return may instanceof Promise ? may.then(allow) : allow(may);
          };
          const running = windowed.transcribe({
            // The audio is read while it is transcribed, window by window.
            source: await command.source(),
            options: command.options,
            context: session.context,
            mayDecode: steps && mayDecode,
            transcribe: async (request, windowContext) => {
              const result = await transcription.transcribe(request, windowContext);
              region = result.servedRegion;
              return result;
            },
          });
          try {
            for await (const event of running) {
              session.noteFirstToken();
              if (event.type === 'done') {
                const billedSeconds = billable(event.durationSeconds);
                await session.settle({ audioSeconds: billedSeconds }, { region, limitTokens });
                return { ...event, billedSeconds: session.billed?.audioSeconds ?? billedSeconds, stoppedBy };
              }
              limitTokens += tokensOf(event.segment);
              await onSegment?.(event);
            }
          } catch (error) {
            const audioSeconds = billable(running.secondsSoFar());
            const failure = call.signal.aborted ? cancellation(call.signal) : error;
            const status = failure instanceof ApiError ? failure.status : 500;
            if (audioSeconds > 0) await session.settle({ audioSeconds }, { region, limitTokens, status });
            throw failure;
          }
          throw errors.internal(new Error('a transcription ended without a result'));
        },
      }),
  };
}
