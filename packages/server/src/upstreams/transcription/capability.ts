import type {
  CallContext,
  TranscriptionCapability,
  TranscriptionRequest,
  TranscriptionResult,
} from '@baobab/core/engine/engine.ts';
import type { Route } from '../routing/router.ts';
import { readTranscription } from './answer.ts';
import { transcriptionRequest } from './request.ts';
import { wavFile } from './wav.ts';

export interface RemoteTranscriptionResult extends TranscriptionResult {
  servedRegion: string | undefined;
}
export interface RemoteTranscription extends TranscriptionCapability {
  transcribe(request: TranscriptionRequest, context: CallContext): Promise<RemoteTranscriptionResult>;
}

export function createRemoteTranscription(route: Route): RemoteTranscription {
  return {
    async transcribe(request, context) {
      const wav = wavFile(request.samples);
      const [result, upstream] = await route.run(context, async (call) => {
        const { json } = await call.fetchJson({
          ...transcriptionRequest(request, wav, call.upstream.model),
          field: ['file'],
        });
        const transcription = readTranscription(json, request);
        if (transcription === undefined) throw call.malformed('the answer is not a transcription');
        return transcription;
      });
      return { ...result, servedRegion: upstream.region };
    },
  };
}
