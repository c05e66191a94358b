import {
  isHopelesslyLong,
  mostRankTokens,
  QUARTERS_PER_TOKEN,
  tokenQuarters,
  worthTokenizing,
} from '@baobab/core/domain/text-size.ts';
import type { Truncation } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { InferenceCall } from './call.ts';
import type { InferenceService } from './pipeline.ts';
import { type AskedTruncation, truncationFor } from './truncation.ts';

const MAX_RERANK_DOCUMENTS = 1000;
/** About a million tokens. Long documents are split into windows, so the context length does not limit them. */
const MAX_RERANK_CHARACTERS = 4_000_000;

export interface RerankCommand {
  model: string;
  query: string;
  documents: readonly string[];
  topN: number | undefined;
  truncation?: AskedTruncation;
  maxDocumentTokens?: number | undefined;
}

export interface RankedDocument {
  index: number;
  score: number;
}

export interface RerankAnswer {
  /** Best first; equal scores keep the order of the documents. */
  results: RankedDocument[];
  promptTokens: number;
}

export interface RerankService {
  rerank(call: InferenceCall, command: RerankCommand): Promise<RerankAnswer>;
}

function checkSize({ query, documents }: RerankCommand, contextLength: number, mayCut: boolean): void {
  if (documents.length > MAX_RERANK_DOCUMENTS) {
    throw errors.tooManyInputs(['documents'], documents.length, MAX_RERANK_DOCUMENTS);
  }
  if (!mayCut && isHopelesslyLong(query.length, contextLength))
    throw errors.contextFarTooLong(['query'], contextLength);
  const characters = documents.reduce((sum, document) => sum + document.length, 0);
  if (characters <= MAX_RERANK_CHARACTERS) return;
  throw new ApiError(
    'too_many_inputs',
    fieldText`${['documents']} has ${characters} characters in all; at most ${MAX_RERANK_CHARACTERS} are accepted in one request.`,
    { field: ['documents'] },
  );
}

export function createRerank({ inference }: { inference: Pick<InferenceService, 'run'> }): RerankService {
  return {
    rerank(call, command) {
      const { model, documents, topN, maxDocumentTokens } = command;
      let { query } = command;
      let truncation: Truncation | undefined;
      return inference.run(call, {
        modality: 'rerank',
        model,

        bound({ entry }) {
          truncation = truncationFor(call, entry, command.truncation);
          checkSize(command, entry.contextLength, truncation !== undefined);
          if (truncation !== undefined) query = worthTokenizing(command.query, entry.contextLength, truncation.side);
          const quarters = documents.reduce(
            (sum, text) => sum + tokenQuarters(text),
            tokenQuarters(query) * documents.length,
          );
          const promptTokens = mostRankTokens({ query, documents, truncation, maxDocumentTokens }, entry.contextLength);
          return { tokens: Math.min(Math.ceil(quarters / QUARTERS_PER_TOKEN), promptTokens), most: { promptTokens } };
        },

        async run(session) {
          const rerank = session.capability('rerank');
          const request = { query, documents, truncation, maxDocumentTokens };
          const { scores, tokens, servedRegion, truncated = 0 } = await rerank.rerank(request, session.context);
          if (truncation !== undefined || maxDocumentTokens !== undefined) {
            call.observer?.truncated?.(query === command.query ? truncated : documents.length);
          }
          const settled = session.settle({ promptTokens: tokens }, { region: servedRegion });
          const results = Array.from(scores, (score, index) => ({ index, score }))
            .sort((left, right) => right.score - left.score || left.index - right.index)
            .slice(0, topN ?? documents.length);
          await settled;
          return { results, promptTokens: session.billed?.promptTokens ?? tokens };
        },
      });
    },
  };
}
