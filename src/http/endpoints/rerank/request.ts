import type { Static } from 'typebox';
import type { RerankCommand } from '../../../inference/rerank.ts';
import type { RerankRequest } from './schema.ts';

export const rerankCommand = (body: Static<typeof RerankRequest>): RerankCommand => ({
  model: body.model,
  query: body.query,
  documents: body.documents.map((each) => (typeof each === 'string' ? each : each.text)),
  topN: body.top_n ?? undefined,
});
