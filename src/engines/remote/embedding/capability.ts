import { errors } from '../../../errors/errors.ts';
import type { CallContext, EmbeddingCapability, EmbeddingRequest, EmbeddingResult } from '../../engine.ts';
import { malformedAnswer } from '../failure/failure.ts';
import type { Route } from '../routing/router.ts';
import type { UpstreamCall } from '../routing/upstream-call.ts';
import { callWithSlice } from '../slice-call.ts';
import { divideTokens, halve, type InputSlice, runSplit } from '../split-inputs.ts';
import { type Embedded, readEmbeddings } from './answer.ts';
import { embeddingRequest } from './request.ts';
import { findTooLongInput } from './too-long-input.ts';

export interface RemoteEmbeddingResult extends EmbeddingResult {
  servedRegion: string | undefined;
}
export interface RemoteEmbedding extends EmbeddingCapability {
  embed(request: EmbeddingRequest, context: CallContext): Promise<RemoteEmbeddingResult>;
}

type Slice = InputSlice<EmbeddingRequest['inputs'][number]>;

export function createRemoteEmbedding(route: Route): RemoteEmbedding {
  const embedSlice = (slice: Slice, call: UpstreamCall): Promise<Embedded | undefined> => {
    const { start, items } = slice;
    const field = items.length === 1 ? ['inputs', start] : ['inputs'];
    return callWithSlice({
      slice,
      call,
      async send() {
        const answer = await call.fetchJson({ ...embeddingRequest(items, call.upstream, field), field });
        const embedded = readEmbeddings(answer, call.upstream.settings.kind, items.length);
        if (embedded === undefined) throw call.malformed('the answer lacks the vectors that were asked for');
        return embedded;
      },
      findTooLong: (failure) => findTooLongInput(slice, call, failure, route.contextLength),
    });
  };

  return {
    async embed({ inputs, dimensions }, context) {
      const tokens = new Array<number>(inputs.length);
      let vectors: Float32Array = new Float32Array(0);
      let kept = 0;
      let servedRegion: string | undefined;

      const store = (slice: Slice, embedded: Embedded): void => {
        const width = embedded.vectors[0]?.length ?? 0;
        if (kept === 0) {
          if (dimensions !== undefined && dimensions > width) throw tooManyDimensions(dimensions, width);
          kept = dimensions ?? width;
          // A single vector stays in the memory it was read into: freeing one allocation for each would block the event loop.
          const [only] = inputs.length === 1 ? embedded.vectors : [];
          vectors = only?.subarray(0, kept) ?? new Float32Array(inputs.length * kept);
        }
        if (width < kept) throw malformedAnswer('the vectors have different lengths', route.slug).apiError;
        for (const [i, vector] of embedded.vectors.entries()) {
          // Shortened here: every upstream can send whole vectors, not every one can shorten them.
          const place = vectors.subarray((slice.start + i) * kept, (slice.start + i + 1) * kept);
          if (!normalizeInto(place, vector)) {
            throw malformedAnswer('a vector has parts that are not numbers', route.slug).apiError;
          }
        }
        divideTokens(embedded.tokens, slice, { tokens, contextLength: route.contextLength });
      };

      await runSplit(inputs, route.maxInputsPerCall(), context, async (slice, sliceContext) => {
        const [embedded, upstream] = await route.run(sliceContext, (call) => embedSlice(slice, call));
        if (embedded === undefined) return halve(slice, upstream.learned.maxInputsPerCall);
        store(slice, embedded);
        servedRegion = upstream.region;
        return [];
      });
      return { vectors, dimensions: kept, tokens, servedRegion };
    },
  };
}

const tooManyDimensions = (asked: number, width: number) =>
  errors.unsupportedParameter(
    ['dimensions'],
    `This model's vectors have ${width} dimensions; ${asked} were asked for.`,
  );

/** Fills `place` with the start of the vector, scaled to unit length. Returns false if a part is not a number. */
function normalizeInto(place: Float32Array, vector: Float32Array): boolean {
  const { length } = place;
  let sum = 0;
  for (let i = 0; i < length; i++) {
    const part = vector[i] as number;
    sum += part * part;
  }
  if (!Number.isFinite(sum)) return false;
  const scale = sum > 0 ? 1 / Math.sqrt(sum) : 1;
  for (let i = 0; i < length; i++) place[i] = (vector[i] as number) * scale;
  return true;
}
