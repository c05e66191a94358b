import { mayBeCut, mostRankTokens } from '@baobab/core/domain/text-size.ts';
import type { CallContext, RerankCapability, RerankRequest, RerankResult } from '@baobab/core/engine/engine.ts';
import { tokenLimit } from '@baobab/core/engine/truncation.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { countOf, truncatedIn } from './answer-fields.ts';
import type { JsonAnswer } from './dialects/dialect.ts';
import { UpstreamFailure } from './failure/failure.ts';
import type { Route } from './routing/router.ts';
import type { Learned } from './routing/upstream.ts';
import type { UpstreamCall } from './routing/upstream-call.ts';
import {
  callWithSlice,
  cutsTooLong,
  halve,
  type InputSlice,
  isTooLong,
  possibleTokens,
  runSplit,
  sendCut,
} from './split-inputs.ts';
import { billedTokensAtLeast, countAtUpstream } from './token-counts.ts';

export interface RemoteRerankResult extends RerankResult {
  servedRegion: string | undefined;
}
export interface RemoteRerank extends RerankCapability {
  rerank(request: RerankRequest, context: CallContext): Promise<RemoteRerankResult>;
}

/** The shortest document. */
const FULL_STOP = '.';

export function createRemoteRerank(route: Route): RemoteRerank {
  const rank = async (
    request: RerankRequest,
    call: UpstreamCall,
    field: FieldPath,
    extra?: object,
  ): Promise<Ranked> => {
    const { dialect, model } = call.upstream;
    const answer = await call.fetchJson({ ...dialect.rerankRequest(request, model, extra), field });
    const ranked = readRanking(answer, request.documents.length, call.upstream.learned);
    if (ranked === undefined) throw call.malformed('the answer lacks the scores that were asked for');
    const tokens = possibleTokens(ranked.tokens, call, {
      surely: request.documents.length,
      most: () => mostRankTokens(request, route.contextLength),
    });
    return { ...ranked, tokens };
  };

  /** A query is read together with each document. If it does not even fit with the shortest one, the error names the query. */
  const rankOne = async (request: RerankRequest, call: UpstreamCall, field: FieldPath): Promise<Ranked> => {
    try {
      return await rank(request, call, field);
    } catch (error) {
      // A token is one byte at least.
      const mayBeQuery = Buffer.byteLength(request.query) >= route.contextLength / 2;
      if (mayBeQuery && isTooLong(error)) await rank({ ...request, documents: [FULL_STOP] }, call, ['query']);
      throw error;
    }
  };

  const rankSlice = (
    whole: RerankRequest,
    slice: InputSlice<string>,
    call: UpstreamCall,
  ): Promise<Ranked | undefined> => {
    const { start, items } = slice;
    const request = { ...whole, documents: items };
    const field = items.length === 1 ? ['documents', start] : ['documents'];
    const send = (extra?: object) =>
      items.length === 1 && extra === undefined ? rankOne(request, call, field) : rank(request, call, field, extra);
    const limit = tokenLimit(request.truncation ?? { side: 'end' }, route.contextLength);
    const long = { ...request, documents: items.filter((text) => mayCut(request, text, limit)) };
    return callWithSlice({
      slice,
      call,
      send: () =>
        long.documents.length === 0
          ? send()
          : sendCut({
              call,
              cut: request,
              limit,
              items: items.length,
              longItems: long.documents.length,
              send,
              count: () => countCut(long, call, limit),
            }),
      findTooLong: cutsTooLong(call.upstream, request)
        ? undefined
        : (failure) => errorOfLongest(whole, slice, call, failure),
    });
  };

  /** Sends the longest document alone: its error names it. If it fits, another one has more tokens, and smaller calls show which. */
  const errorOfLongest = async (
    request: RerankRequest,
    { start, items }: InputSlice<string>,
    call: UpstreamCall,
    failure: UpstreamFailure,
  ): Promise<Error | undefined> => {
    const longest = items.reduce((best, item, i) => (item.length > (items[best]?.length ?? 0) ? i : best), 0);
    const alone = { start: start + longest, items: items.slice(longest, longest + 1) };
    try {
      await rankSlice(request, alone, call);
      return undefined;
    } catch (error) {
      return error instanceof UpstreamFailure && error.kind === 'rejected' ? error : failure;
    }
  };

  return {
    async rerank(given, context) {
      const { query, documents, truncation } = given;
      const { maxTokens } = truncation ?? {};
      const most = maxTokens && Math.min(maxTokens, route.contextLength);
      const request = { ...given, truncation: truncation && { ...truncation, maxTokens: most } };
      const scores = new Float32Array(documents.length);
      let tokens = 0;
      let truncated = 0;
      let servedRegion: string | undefined;
      await runSplit(documents, route.maxInputsPerCall(), context, async (slice, sliceContext) => {
        const [ranked, upstream] = await route.run(sliceContext, (call) => rankSlice(request, slice, call));
        if (ranked === undefined) return halve(slice, upstream.learned.maxInputsPerCall);
        scores.set(ranked.scores, slice.start);
        tokens +=
          ranked.tokens ??
          Math.min(
            estimate(query, slice.items),
            mostRankTokens({ ...request, documents: slice.items }, route.contextLength),
          );
        truncated += ranked.truncated ?? 0;
        servedRegion = upstream.region;
        return [];
      });
      return { scores, tokens, truncated, servedRegion };
    },
  };
}

/** A cross-encoder reads the query again with every document. */
const estimate = (query: string, documents: readonly string[]): number =>
  documents.reduce((sum, document) => sum + billedTokensAtLeast(query) + billedTokensAtLeast(document), 0);

interface Ranked {
  scores: number[];
  /** Undefined if the upstream does not report them. */
  tokens: number | undefined;
  truncated: number | undefined;
}

/** Whether the document or its query is to be cut, and may be long enough for that. */
const mayCut = ({ query, truncation, maxDocumentTokens }: RerankRequest, text: string, limit: number): boolean =>
  (truncation !== undefined && mayBeCut(query + text, limit)) ||
  (maxDocumentTokens !== undefined && mayBeCut(text, maxDocumentTokens));

/** How many documents are cut with their query. Each text is counted with its special tokens, so it may be one too many. */
async function countCut(
  { query, documents }: RerankRequest,
  call: UpstreamCall,
  limit: number,
): Promise<number | undefined> {
  const counts = await countAtUpstream(call, [query, ...documents], ['documents']).catch(() => undefined);
  const [ofQuery = 0, ...ofDocuments] = counts ?? [];
  return counts && ofDocuments.filter((count) => ofQuery + count > limit).length;
}

/** TEI: `[{index, score}]`. The others: `{results: [{index, relevance_score}], usage}`. Undefined if a document has no score. */
function readRanking({ json, headers }: JsonAnswer, count: number, learned: Learned): Ranked | undefined {
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
  const tokens = usage?.total_tokens ?? usage?.prompt_tokens ?? Number(headers['x-compute-tokens']);
  return { scores: probabilities(scores, learned), tokens: countOf(tokens), truncated: truncatedIn(headers) };
}

/** Turns logits into probabilities. An upstream that once gave a score outside 0–1 gives logits. */
function probabilities(scores: number[], learned: Learned): number[] {
  learned.givesRawScores ||= scores.some((score) => score < 0 || score > 1);
  return learned.givesRawScores ? scores.map((score) => 1 / (1 + Math.exp(-score))) : scores;
}
