import type { CallContext, RerankCapability, RerankRequest, RerankResult } from '../../engine.ts';
import { malformedAnswer, UpstreamFailure } from '../failure.ts';
import { type RemoteScope, scopeAt } from '../remote-scope.ts';
import type { Lease, LeaseRequest } from '../routing/lease.ts';
import { toApiError } from '../routing/router.ts';
import { halve, inPieces, learnInputLimit, type Piece } from '../split-inputs.ts';
import { estimateTokens } from '../token-count.ts';

export interface RemoteRerankResult extends RerankResult {
  servedRegion: string | undefined;
}
export interface RemoteRerank extends RerankCapability {
  rerank(request: RerankRequest, context: CallContext): Promise<RemoteRerankResult>;
}

interface Ranked {
  scores: number[];
  tokens: number | undefined;
}

export function createRemoteRerank(remote: RemoteScope): RemoteRerank {
  const rankPiece = async (
    query: string,
    { start, items }: Piece<string>,
    lease: Lease,
  ): Promise<Ranked | undefined> => {
    const scope = scopeAt(remote, lease, items.length === 1 ? `documents[${start}]` : 'documents');
    try {
      const { json, headers } = await lease.sendForJson({ ...request(query, items, lease), scope });
      const ranked = read(json, Number(headers['x-compute-tokens']), items.length);
      if (ranked === undefined) throw malformedAnswer('these are not the scores that were asked for', scope);
      return { ...ranked, scores: probabilities(ranked.scores, lease) };
    } catch (error) {
      if (!(error instanceof UpstreamFailure) || error.kind !== 'too-many' || items.length === 1) throw error;
      learnInputLimit(lease.upstream, error);
      return undefined;
    }
  };

  return {
    async rerank({ query, documents }, context) {
      const scores = new Float32Array(documents.length);
      let tokens = 0;
      let servedRegion: string | undefined;
      try {
        await inPieces(remote, documents, context, async (piece, pieceContext) => {
          const [ranked, lease] = await remote.router.call(pieceContext, remote.region, (lent) =>
            rankPiece(query, piece, lent),
          );
          if (ranked === undefined) return halve(piece, lease.upstream.learned.maxInputsPerCall);
          scores.set(ranked.scores, piece.start);
          tokens += ranked.tokens ?? estimate(query, piece.items);
          servedRegion = lease.upstream.region;
          return [];
        });
      } catch (error) {
        throw toApiError(error);
      }
      return { scores, tokens, servedRegion };
    },
  };
}

function request(
  query: string,
  documents: readonly string[],
  { upstream }: Lease,
): Pick<LeaseRequest, 'base' | 'route' | 'body'> {
  if (upstream.settings.kind === 'tei') {
    const body = { query, texts: documents, raw_scores: false, truncate: false, return_text: false };
    return { base: 'root', route: '/rerank', body: JSON.stringify(body) };
  }
  const body = { model: upstream.model, query, documents, top_n: documents.length, return_documents: false };
  return { base: 'api', route: '/rerank', body: JSON.stringify(body) };
}

/** TEI: `[{index, score}]`; the others: `{results: [{index, relevance_score}], usage}`. */
function read(json: unknown, computedTokens: number, count: number): Ranked | undefined {
  const { results, usage }: { results?: unknown; usage?: { total_tokens?: unknown; prompt_tokens?: unknown } | null } =
    typeof json === 'object' && json !== null ? json : {};
  const ranks: unknown = Array.isArray(json) ? json : results;
  if (!Array.isArray(ranks)) return undefined;
  const scores = new Array<number>(count).fill(Number.NaN);
  for (const rank of ranks) {
    const {
      index,
      score,
      relevance_score = score,
    }: { index?: unknown; score?: unknown; relevance_score?: unknown } = rank ?? {};
    if (typeof index === 'number' && index < count && typeof relevance_score === 'number')
      scores[index] = relevance_score;
  }
  if (scores.some(Number.isNaN)) return undefined;
  const tokens = usage?.total_tokens ?? usage?.prompt_tokens ?? computedTokens;
  return { scores, tokens: typeof tokens === 'number' && tokens >= 0 ? tokens : undefined };
}

/** Logits become probabilities; an address that once gave a score outside 0–1 gives logits. */
function probabilities(scores: number[], { upstream: { learned } }: Lease): number[] {
  learned.givesRawScores ||= scores.some((score) => score < 0 || score > 1);
  return learned.givesRawScores ? scores.map((score) => 1 / (1 + Math.exp(-score))) : scores;
}

/** A cross-encoder reads the query again with every document. */
const estimate = (query: string, documents: readonly string[]): number =>
  documents.reduce((sum, document) => sum + estimateTokens(query) + estimateTokens(document), 0);
