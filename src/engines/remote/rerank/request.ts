import type { RerankRequest } from '../../engine.ts';
import type { Upstream } from '../routing/upstream.ts';
import type { UpstreamRequest } from '../routing/upstream-call.ts';

export function rerankRequest(
  { query, documents }: RerankRequest,
  { settings, model }: Upstream,
): Pick<UpstreamRequest, 'base' | 'route' | 'body'> {
  if (settings.kind === 'tei') {
    const body = { query, texts: documents, raw_scores: false, truncate: false, return_text: false };
    return { base: 'root', route: '/rerank', body: JSON.stringify(body) };
  }
  const body = { model, query, documents, top_n: documents.length, return_documents: false };
  return { base: 'api', route: '/rerank', body: JSON.stringify(body) };
}
