import type { Static } from 'typebox';
import type { EmbeddingsService } from '../../../inference/embeddings.ts';
import type { InferenceCall } from '../../../inference/pipeline.ts';
import { embeddingCommand } from './request.ts';
import type { EmbeddingRequest } from './schema.ts';
import { writeEmbeddings } from './vector-json.ts';

/** The JSON of the answer: a string if it is short, else bytes. */
export function answerEmbeddings(
  embeddings: EmbeddingsService,
  call: InferenceCall,
  body: Static<typeof EmbeddingRequest>,
) {
  const { model, encoding_format: format } = body;
  return embeddings.embed<string | Buffer>(call, embeddingCommand(body), ({ vectors, dimensions }, promptTokens) =>
    writeEmbeddings({ vectors, dimensions, model, promptTokens, format: format ?? 'float' }),
  );
}
